// The interactive parts of a report: curves with hover and zoom in place of its pictures, and the token view.

import { COLOURS, CURVES, columnsOf, drawChart, element } from "./charts.js";
import { drawXray } from "./xray.js";

export function drawReport() {
  const read = (name) => JSON.parse(document.querySelector(name)?.textContent ?? "null");
  const lines = read("#metrics") ?? [], columns = columnsOf(lines), host = document.querySelector("#curves");
  const view = { range: null, charts: new Set() }, charts = [];
  const curve = (metric, name, colour) => {
    const places = columns[metric].map((_, i) => i).filter((i) => columns[metric][i] !== null);
    const pick = (key) => (columns[key] ? places.map((i) => columns[key][i]) : undefined);
    return { name, colour, x: places.map((i) => lines[i].iteration), y: pick(metric), low: pick(`${metric}.low`), high: pick(`${metric}.high`) };
  };
  const known = new Set(CURVES.flatMap(([, metrics]) => metrics));
  for (const [title, metrics, kind] of CURVES) {
    const series = metrics.filter((m) => columns[m]).map((m, n) => curve(m, metrics.length > 1 ? m.split(".").pop() : title, COLOURS[n]));
    if (series.length) charts.push({ title, series, kind });
  }
  for (const name of Object.keys(columns)) {
    if (!known.has(name) && !/^(iteration|tokens|eval[.]|acted[.]|seconds)/.test(name)) charts.push({ title: name, series: [curve(name, name, COLOURS[0])], kind: "free" });
  }
  const parts = Object.keys(columns).filter((name) => name.startsWith("acted."));
  if (parts.length) charts.push({ title: "elements that each part changed", series: parts.map((name, n) => curve(name, name.slice(6), COLOURS[n % COLOURS.length])), kind: "" });
  if (charts.length) host.replaceChildren(...charts.map((chart) => { const box = element("div"); drawChart(box, { ...chart, view }); return box; }));
  const tokens = read("#xray");
  if (tokens) drawXray(document.querySelector("#tokens"), tokens);
}
