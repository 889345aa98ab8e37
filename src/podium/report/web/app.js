// The live page: runs on the left; curves, rollouts and the X-ray of those that are chosen on the right.

import { COLOURS, CURVES, columnsOf, drawChart, element, number } from "./charts.js";
import { drawXray } from "./xray.js";

const token = new URLSearchParams(location.search).get("token") ?? "";
const POLL_MS = 1000, MOST_AT_FIRST = 6;
const TABS = [["curves", "Curves"], ["rollouts", "Rollouts"], ["xray", "X-ray"], ["doctor", "Doctor"]];
const state = { runs: [], chosen: new Set(), lines: new Map(), tab: "curves", axis: "iteration", bands: false, search: "", single: null, view: { range: null, charts: new Set() }, rollouts: {}, xray: {} };

const $ = (selector) => document.querySelector(selector);

async function ask(path, parameters = {}) {
  const query = new URLSearchParams({ ...parameters, token });
  const answer = await fetch(`/api/${path}?${query}`);
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({ error: answer.statusText }))).error);
  return answer.json();
}

const colourOf = (name) => COLOURS[[...state.chosen].sort().indexOf(name) % COLOURS.length];
const chosenRuns = () => state.runs.filter((run) => state.chosen.has(run.name));

// -- runs -----------------------------------------------------------------------------------------------------------

function drawRuns() {
  const box = $(".runs");
  if (!box.firstChild) box.append(element("input", { type: "search", placeholder: "filter runs", "aria-label": "filter runs", oninput: (e) => { state.search = e.target.value; drawRuns(); } }), element("div"));
  const words = state.search.toLowerCase().split(" ").filter(Boolean);
  const shown = state.runs.filter((run) => words.every((word) => `${run.name} ${run.method} ${run.world}`.toLowerCase().includes(word)));
  box.lastChild.replaceChildren(
    element("p", { class: "muted" }, `${shown.length} of ${state.runs.length} runs`),
    ...shown.map((run) => {
      const tick = element("input", { type: "checkbox", style: "width:auto;margin:0 .4rem 0 0", onchange: () => choose(run.name) });
      tick.checked = state.chosen.has(run.name);
      const swatch = element("i", { style: `background:${tick.checked ? colourOf(run.name) : "transparent"}` });
      const measured = run.eval === null ? "" : ` · pass@1 ${run.eval.toFixed(3)}`;
      return element("label", { class: "run" }, tick, swatch, run.name, element("small", {}, `${run.method} on ${run.world} · ${run.iteration}/${run.iterations}${measured}`));
    }),
  );
}

async function choose(name) {
  if (state.chosen.has(name)) state.chosen.delete(name);
  else state.chosen.add(name);
  drawRuns();
  await load();
  draw();
}

/** Read the lines of the chosen runs that are not here yet. */
async function load() {
  await Promise.all(
    chosenRuns().map(async (run) => {
      const held = state.lines.get(run.name) ?? { version: null, lines: [] };
      if (held.version === run.version) return;
      const since = held.lines.length ? held.lines[held.lines.length - 1].iteration : -1;
      const fresh = await ask("metrics", { run: run.name, since });
      const kept = fresh.whole ? [] : held.lines;
      state.lines.set(run.name, { version: run.version, lines: [...kept, ...fresh.lines] });
    }),
  );
}

// -- curves ---------------------------------------------------------------------------------------------------------

function xOf(columns, lines) {
  if (state.axis === "iteration") return lines.map((line) => line.iteration);
  let total = 0;
  const of = (line) => (state.axis === "tokens" ? line.tokens ?? 0 : Object.values(line.seconds ?? {}).reduce((a, b) => a + b, 0));
  return lines.map((line) => (total += of(line)));
}

/** One curve a run, or one a method and world with a band from the lowest to the highest seed. */
function seriesOf(metric, label) {
  const curves = chosenRuns().flatMap((run) => {
    const { lines } = state.lines.get(run.name) ?? { lines: [] };
    const columns = columnsOf(lines);
    if (!columns[metric]) return [];
    const x = xOf(columns, lines), places = columns[metric].map((y, i) => i).filter((i) => columns[metric][i] !== null);
    const pick = (name) => (columns[name] ? places.map((i) => columns[name][i]) : undefined);
    return [{ run, x: places.map((i) => x[i]), y: pick(metric), low: pick(`${metric}.low`), high: pick(`${metric}.high`) }];
  });
  if (!state.bands) return curves.map((c) => ({ ...c, name: label ? `${c.run.name} ${label}` : c.run.name, colour: colourOf(c.run.name) }));
  const groups = Map.groupBy ? Map.groupBy(curves, (c) => c.run.setting) : curves.reduce((map, c) => map.set(c.run.setting, [...(map.get(c.run.setting) ?? []), c]), new Map());
  return [...groups.entries()].map(([, members], place) => {
    const xs = [...new Set(members.flatMap((c) => c.x))].sort((a, b) => a - b);
    const at = xs.map((x) => members.map((c) => c.y[c.x.indexOf(x)]).filter((y) => y !== undefined && y !== null));
    const { run } = members[0];
    return { name: `${run.method} on ${run.world}, ${members.length} seeds${label ? ` ${label}` : ""}`, colour: COLOURS[place % COLOURS.length], x: xs, y: at.map((ys) => ys.reduce((a, b) => a + b, 0) / ys.length), low: at.map((ys) => Math.min(...ys)), high: at.map((ys) => Math.max(...ys)) };
  });
}

function drawCurves(main) {
  let charts = main.querySelector(".charts");
  if (!charts) {
    const axis = element("select", { "data-control": "axis", onchange: (e) => { state.axis = e.target.value; state.view.range = null; draw(); } }, ...[["iteration", "iterations"], ["tokens", "sampled tokens"], ["seconds", "seconds"]].map(([key, text]) => element("option", { value: key, selected: key === state.axis }, text)));
    const bands = element("input", { type: "checkbox", "data-control": "bands", onchange: (e) => { state.bands = e.target.checked; draw(); } });
    bands.checked = state.bands;
    main.replaceChildren(element("div", { class: "controls" }, element("label", {}, "along", axis), element("label", {}, "bands over seeds", bands), element("span", { class: "muted" }, "drag to zoom, double-click to see everything")), element("div", { class: "charts" }));
    charts = main.querySelector(".charts");
  }
  const wanted = CURVES.map(([title, metrics, kind]) => {
    const several = metrics.length > 1;
    const series = metrics.flatMap((metric, n) => seriesOf(metric, several ? metric.split(".").pop() : "").map((s) => ({ ...s, dashed: n > 0 })));
    return { title, series, kind, named: several || state.bands };
  });
  const runs = chosenRuns();
  if (runs.length === 1) {
    const columns = columnsOf((state.lines.get(runs[0].name) ?? { lines: [] }).lines);
    const parts = Object.keys(columns).filter((name) => name.startsWith("acted."));
    const series = parts.flatMap((name, n) => seriesOf(name).map((s) => ({ ...s, name: name.slice(6), colour: COLOURS[n % COLOURS.length] })));
    wanted.push({ title: "elements that each part changed", series, kind: "" });
    const known = new Set([...CURVES.flatMap(([, metrics]) => metrics), "iteration", "eval.pass@1.low", "eval.pass@1.high", ...parts]);
    for (const name of Object.keys(columns).filter((n) => !known.has(n))) wanted.push({ title: name, series: seriesOf(name), kind: "free" });
  }
  const shown = wanted.filter(({ series }) => series.length);
  while (charts.children.length > shown.length) charts.lastChild.remove();
  while (charts.children.length < shown.length) charts.append(element("div"));
  state.view.charts.clear();
  shown.forEach((chart, n) => drawChart(charts.children[n], { ...chart, xLabel: state.axis, view: state.view }));
  if (!shown.length) charts.append(element("p", { class: "muted" }, "Choose a run on the left."));
}

// -- rollouts, X-ray, doctor ----------------------------------------------------------------------------------------

const only = () => chosenRuns().find((run) => run.name === state.single) ?? chosenRuns()[0];

function runChoice(run) {
  const select = element("select", { "data-control": "run", onchange: (e) => { state.single = e.target.value; draw(); } });
  for (const each of chosenRuns()) select.append(element("option", { value: each.name, selected: each.name === run.name }, each.name));
  return element("label", {}, "run", select);
}

function iterationChoice(run, held, change) {
  const select = element("select", { "data-control": "iteration", onchange: (e) => change(Number(e.target.value)) });
  for (const n of [...run.recorded].reverse()) select.append(element("option", { value: n, selected: n === held.iteration }, `iteration ${n}`));
  return element("label", {}, "of", select);
}

async function drawRollouts(main) {
  const run = only(), held = state.rollouts;
  if (!run) return void main.replaceChildren(element("p", { class: "muted" }, "Choose a run on the left."));
  if (held.run !== run.name) Object.assign(held, { run: run.name, iteration: undefined, only: "all", search: "" });
  const found = await ask("rollouts", { run: run.name, ...(held.iteration === undefined ? {} : { iteration: held.iteration }) });
  held.iteration = found.iteration;
  const rows = element("tbody");
  const fill = () => {
    const matching = found.rollouts.filter((r) => (held.only === "all" || (held.only === "flat" ? r.flat : held.only === "right" ? r.correct : !r.correct)) && `${r.task} ${r.prompt} ${r.text}`.toLowerCase().includes(held.search.toLowerCase()));
    count.textContent = `${matching.length} of ${found.rollouts.length} rollouts`;
    rows.replaceChildren(...matching.slice(0, 200).map((r) => element("tr", { onclick: () => openXray(run, held.iteration, r.task) }, element("td", {}, element("span", { class: r.correct ? "yes" : "no" }, r.correct ? "right" : "wrong")), element("td", {}, element("small", { class: "muted" }, `${r.task} · ${r.prompt}`), element("pre", {}, r.text ?? "")), element("td", {}, number(r.reward)), element("td", {}, number(r.length)))));
  };
  const count = element("span", { class: "muted" });
  const filter = element("select", { "data-control": "only", onchange: (e) => { held.only = e.target.value; fill(); } }, ...[["all", "all"], ["right", "right"], ["wrong", "wrong"], ["flat", "of groups without a difference"]].map(([key, text]) => element("option", { value: key, selected: key === held.only }, text)));
  const search = element("input", { type: "search", value: held.search, "data-control": "search", oninput: (e) => { held.search = e.target.value; fill(); } });
  main.replaceChildren(
    element("div", { class: "controls" }, runChoice(run), iterationChoice(run, held, (n) => { held.iteration = n; draw(); }), element("label", {}, "rollouts", filter), element("label", {}, "search", search), count),
    element("table", { class: "rollouts" }, element("thead", {}, element("tr", {}, ...["verdict", "rollout", "reward", "tokens"].map((name) => element("th", {}, name)))), rows),
  );
  fill();
}

function openXray(run, iteration, task) {
  state.xray = { run: run.name, iteration, search: task, methods: "" };
  show("xray");
}

async function drawXrayTab(main) {
  const run = only(), held = state.xray;
  if (!run) return void main.replaceChildren(element("p", { class: "muted" }, "Choose a run on the left."));
  if (held.run !== run.name) state.xray = { run: run.name, iteration: undefined, methods: "", search: "" };
  const now = state.xray, host = element("div", {}, element("p", { class: "muted" }, "Reading …"));
  const methods = element("input", { type: "text", value: now.methods, placeholder: "grpo gspo cispo", "data-control": "methods", onchange: (e) => { now.methods = e.target.value; draw(); } });
  const bar = element("div", { class: "controls" }, element("label", {}, "methods on the same batch", methods));
  main.replaceChildren(bar, host);
  try {
    const view = await ask("xray", { run: run.name, methods: now.methods, ...(now.iteration === undefined ? {} : { iteration: now.iteration }) });
    now.iteration = view.iteration;
    bar.prepend(runChoice(run), iterationChoice(run, now, (n) => { now.iteration = n; now.search = ""; draw(); }));
    drawXray(host, view, { search: now.search });
  } catch (problem) {
    host.replaceChildren(element("p", { class: "no" }, problem.message));
  }
}

async function drawDoctor(main) {
  main.replaceChildren(element("p", { class: "muted" }, "Reading …"));
  const runs = chosenRuns();
  const findings = runs.length ? await ask("doctor", { runs: runs.map((run) => run.name).join("\n") }) : {};
  main.replaceChildren(
    ...runs.flatMap((run) => [
      element("h2", {}, run.name),
      ...(findings[run.name].length ? findings[run.name].map((f) => element("div", { class: "finding" }, element("b", {}, f.rule), element("p", {}, f.seen), element("p", { class: "muted" }, f.matters), element("code", {}, f.mend))) : [element("p", {}, "Nothing is wrong.")]),
    ]),
  );
  if (!runs.length) main.append(element("p", { class: "muted" }, "Choose a run on the left."));
}

// -- the page -------------------------------------------------------------------------------------------------------

function show(tab) {
  state.tab = tab;
  $("main").replaceChildren();
  for (const button of document.querySelectorAll("nav button")) button.setAttribute("aria-selected", button.dataset.tab === tab);
  draw();
}

async function draw() {
  const main = $("main");
  try {
    if (state.tab === "curves") drawCurves(main);
    else await { rollouts: drawRollouts, xray: drawXrayTab, doctor: drawDoctor }[state.tab](main);
  } catch (problem) {
    main.replaceChildren(element("p", { class: "no" }, problem.message));
  }
}

async function refresh() {
  try {
    const { runs } = await ask("runs");
    const before = new Map(state.runs.map((run) => [run.name, run.version]));
    const changed = runs.length !== state.runs.length || runs.some((run) => before.get(run.name) !== run.version);
    state.runs = runs;
    if (!state.chosen.size && !before.size) for (const run of runs.slice(0, runs.length > MOST_AT_FIRST ? 1 : MOST_AT_FIRST)) state.chosen.add(run.name);
    if (changed) {
      drawRuns();
      await load();
      if (state.tab === "curves") draw();
    }
    $("#state").textContent = `${runs.length} ${runs.length === 1 ? "run" : "runs"}, ${new Date().toLocaleTimeString()}`;
  } catch (problem) {
    $("#state").textContent = `not connected: ${problem.message}`;
  }
  setTimeout(refresh, POLL_MS);
}

$("nav").append(...TABS.map(([tab, text]) => element("button", { role: "tab", "data-tab": tab, "aria-selected": String(tab === state.tab), onclick: () => show(tab) }, text)));
$("#theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
});
refresh();
