"use strict";
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function themed(layout) {
  const ink = color("--ink"), line = color("--line");
  const axis = (old) => Object.assign({ gridcolor: line, zerolinecolor: line, linecolor: line, color: ink }, old);
  const out = Object.assign({}, layout, {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: Object.assign({}, layout.font, { color: ink }),
    hoverlabel: { bgcolor: color("--card"), bordercolor: line, font: { color: ink } },
  });
  for (const key of Object.keys(layout)) if (/^[xy]axis/.test(key)) out[key] = axis(layout[key]);
  if (layout.scene) {
    out.scene = Object.assign({}, layout.scene);
    for (const key of ["xaxis", "yaxis", "zaxis"]) out.scene[key] = axis(layout.scene[key]);
  }
  return out;
}

function size(place) {
  const ratio = Number(place.style.getPropertyValue("--ratio"));
  place.style.height = `${Math.min(place.clientWidth / ratio + 70, 640)}px`;
}

const viewers = Array.from(document.querySelectorAll(".viewer"), (viewer) => {
  const spec = JSON.parse(viewer.querySelector("script").textContent);
  const { meta, updatemenus, height, ...layout } = spec.layout;  // the page has buttons of its own
  layout.margin.t = 8;
  const place = viewer.querySelector(".plot"), slider = viewer.querySelector("input");
  size(place);
  addEventListener("resize", () => size(place));
  Plotly.newPlot(place, spec.data, themed(layout), { responsive: true, displayModeBar: false, showTips: false, scrollZoom: true });
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
  return () => Plotly.relayout(place, themed(layout));
});

document.querySelectorAll(".linked").forEach((group) => {
  const plots = group.querySelectorAll(".plot");
  let busy = false;
  plots.forEach((one, number) => {
    const copy = (change) => {
      const view = Object.fromEntries(Object.entries(change).filter(([key]) => /^([xy]axis\.|scene\.camera)/.test(key)));
      if (busy || !Object.keys(view).length) return;
      busy = true;
      Plotly.relayout(plots[1 - number], view).then(() => { busy = false; });
    };
    one.on("plotly_relayout", copy);
    one.on("plotly_relayouting", copy);
  });
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => viewers.forEach((redraw) => redraw()));

document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () => {
  const source = document.getElementById(button.dataset.copy);
  const range = document.createRange();
  range.selectNodeContents(source);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  document.execCommand("copy");
  button.textContent = "Copied";
}));
