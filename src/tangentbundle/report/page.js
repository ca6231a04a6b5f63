"use strict";

function size(place) {
  const ratio = Number(place.style.getPropertyValue("--ratio"));
  place.style.height = `${Math.min(place.clientWidth / ratio + 70, 640)}px`;
}

document.querySelectorAll(".viewer").forEach((viewer) => {
  const spec = JSON.parse(viewer.querySelector("script").textContent);
  const { meta, updatemenus, height, ...layout } = spec.layout;  // the page has buttons of its own
  layout.margin.t = 8;
  const place = viewer.querySelector(".plot"), slider = viewer.querySelector("input");
  size(place);
  addEventListener("resize", () => size(place));
  Plotly.newPlot(place, spec.data, layout, { responsive: true, displayModeBar: false, showTips: false, scrollZoom: true });
  const show = (number) => Plotly.restyle(place, { visible: meta.choices[number].visible });
  const buttons = viewer.querySelectorAll(".toggle button");
  buttons.forEach((button) => button.addEventListener("click", () => {
    show(Number(button.dataset.choice));
    buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
  }));
  if (slider) slider.addEventListener("input", () => {
    show(Number(slider.value));
    viewer.querySelector("output").textContent = meta.choices[Number(slider.value)].label;
  });
});

document.querySelectorAll(".linked").forEach((group) => {
  const plots = group.querySelectorAll(".plot");
  let busy = null, latest = null;  // the plot being changed; the newest view that waits for it
  const follow = () => {
    if (busy || !latest) return;
    const view = latest.view;
    busy = latest.plot;
    latest = null;
    Plotly.relayout(busy, view).then(() => { busy = null; follow(); });
  };
  plots.forEach((one, number) => {
    const copy = (change) => {
      const view = Object.fromEntries(Object.entries(change).filter(([key]) => /^([xy]axis\.|scene\.camera)/.test(key)));
      if (busy === one || !Object.keys(view).length) return;
      latest = { plot: plots[1 - number], view };
      follow();
    };
    one.on("plotly_relayout", copy);
    one.on("plotly_relayouting", copy);
  });
});

document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () => {
  const source = document.getElementById(button.dataset.copy);
  const range = document.createRange();
  range.selectNodeContents(source);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  document.execCommand("copy");
  button.textContent = "Copied";
}));
