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

const viewers = Array.from(document.querySelectorAll(".viewer"), (viewer) => {
  const spec = JSON.parse(viewer.querySelector("script").textContent);
  const place = viewer.querySelector(".plot");
  Plotly.newPlot(place, spec.data, themed(spec.layout), { responsive: true, displaylogo: false, showTips: false });
  const buttons = viewer.querySelectorAll(".toggle button");
  buttons.forEach((button) => button.addEventListener("click", () => {
    Plotly.restyle(place, ...spec.choices[Number(button.dataset.choice)]);
    buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
  }));
  return () => Plotly.relayout(place, themed(spec.layout));
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
