// Curves with bands, hover and zoom, as SVG. Charts that share a `view` zoom together.

const NS = "http://www.w3.org/2000/svg";
const SIZE = { width: 420, height: 230, left: 50, right: 12, top: 12, bottom: 30 };
export const COLOURS = ["#3b82f6", "#e5484d", "#0fa968", "#d98a0b", "#8b5cf6", "#0c9bb5", "#d6409f", "#5f9e0f", "#8a6a4f", "#64748b"];
const MOST_POINTS = 600; // of a curve that are drawn

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  return filled(made, attributes, children);
}

function shape(name, attributes = {}, ...children) {
  return filled(document.createElementNS(NS, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${(value / 1e3).toPrecision(3)}k`;
  if (size !== 0 && size < 1e-3) return value.toExponential(1);
  return String(Number(value.toPrecision(4)));
}

/** Round numbers that cover [low, high]. */
export function ticks(low, high, most = 5) {
  if (!(high > low)) high = low + (Math.abs(low) || 1);
  const raw = (high - low) / most, size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * size).find((s) => s >= raw * 0.999);
  const marks = [];
  for (let k = Math.floor(low / step + 1e-9); k <= Math.ceil(high / step - 1e-9); k++) marks.push(Number((k * step).toPrecision(12)));
  return marks;
}

/** The limits of the vertical axis: shares from 0 to 1, what cannot be negative from 0 on. */
export function limits(values, kind) {
  if (kind === "share") return [0, 1];
  let low = Math.min(...values), high = Math.max(...values);
  if (kind !== "free" && low >= 0) low = 0;
  if (kind === "reward" && low >= 0 && high <= 1) high = 1;
  const marks = ticks(low, high);
  return [marks[0], marks[marks.length - 1]];
}

function thinned(points) {
  const step = Math.ceil(points.length / MOST_POINTS);
  return step > 1 ? points.filter((_, place) => place % step === 0 || place === points.length - 1) : points;
}

/**
 * Draw a chart into `host`. `series`: [{name, colour, x: [], y: [], low?: [], high?: [], dashed?}].
 * `kind`: share, reward, free, or nothing. `named`: whether to name the series below; the list of runs may do that.
 * `view`: {range: [x0, x1] | null, charts: Set} shared by charts that zoom together.
 */
export function drawChart(host, { title, series, kind, xLabel = "iteration", view, named = true }) {
  const { width, height, left, right, top, bottom } = SIZE;
  const state = view ?? { range: null, charts: new Set() };
  const redraw = () => drawChart(host, { title, series, kind, xLabel, view: state, named });
  for (const old of state.charts) if (old.host === host) state.charts.delete(old);
  state.charts.add({ host, redraw });
  const lines = series.map((s) => ({ ...s, points: s.x.map((x, i) => ({ x, y: s.y[i], low: s.low?.[i], high: s.high?.[i] })).filter((p) => p.y !== null && p.y !== undefined) }));
  const all = lines.flatMap((s) => s.points.map((p) => p.x));
  host.replaceChildren();
  host.classList.add("chart");
  host.append(element("h3", {}, title));
  if (!all.length) {
    host.append(element("p", { class: "muted" }, "nothing yet"));
    return;
  }
  const [x0, x1] = state.range ?? [Math.min(...all), Math.max(...all)];
  const within = lines.map((s) => ({ ...s, points: thinned(s.points.filter((p) => p.x >= x0 && p.x <= x1)) }));
  const ys = within.flatMap((s) => s.points.flatMap((p) => [p.y, p.low ?? p.y, p.high ?? p.y]));
  const [y0, y1] = ys.length ? limits(ys, kind) : [0, 1];
  const px = (x) => left + ((x - x0) / (x1 - x0 || 1)) * (width - left - right);
  const py = (y) => height - bottom - ((y - y0) / (y1 - y0 || 1)) * (height - top - bottom);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  for (const y of ticks(y0, y1).filter((y) => y >= y0 - 1e-12 && y <= y1 + 1e-12)) {
    svg.append(shape("line", { x1: left, x2: width - right, y1: py(y), y2: py(y), class: "grid" }));
    svg.append(shape("text", { x: left - 6, y: py(y) + 4, class: "tick", "text-anchor": "end" }, number(y)));
  }
  const marks = ticks(x0, x1, 6).filter((x) => x >= x0 && x <= x1 && (xLabel !== "iteration" || Number.isInteger(x)));
  for (const x of marks) svg.append(shape("text", { x: px(x), y: height - 14, class: "tick", "text-anchor": "middle" }, number(x)));
  svg.append(shape("text", { x: width - right, y: height - 2, class: "tick", "text-anchor": "end" }, xLabel));
  for (const s of within) {
    const band = s.points.filter((p) => p.low !== null && p.low !== undefined && p.high !== null && p.high !== undefined);
    if (band.length > 1) {
      const edge = [...band.map((p) => `${px(p.x)},${py(p.high)}`), ...band.reverse().map((p) => `${px(p.x)},${py(p.low)}`)];
      svg.append(shape("polygon", { points: edge.join(" "), fill: s.colour, opacity: 0.16 }));
    }
  }
  for (const s of within) {
    const path = s.points.map((p) => `${px(p.x).toFixed(1)},${py(Math.max(y0, Math.min(y1, p.y))).toFixed(1)}`).join(" ");
    svg.append(shape("polyline", { points: path, fill: "none", stroke: s.colour, "stroke-width": 1.7, "stroke-dasharray": s.dashed ? "5 4" : null }));
    if (s.points.length <= 12) for (const p of s.points) svg.append(shape("circle", { cx: px(p.x), cy: py(p.y), r: 2.4, fill: s.colour }));
  }
  const cross = shape("line", { y1: top, y2: height - bottom, class: "cross", visibility: "hidden" });
  const brush = shape("rect", { y: top, height: height - top - bottom, class: "brush", visibility: "hidden" });
  const tip = element("div", { class: "tip", hidden: true });
  svg.append(cross, brush);
  let start = null;
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    const inside = ((event.clientX - box.left) / box.width) * width;
    return x0 + ((Math.max(left, Math.min(width - right, inside)) - left) / (width - left - right)) * (x1 - x0);
  };
  svg.addEventListener("pointermove", (event) => {
    const x = at(event);
    const xs = within.flatMap((s) => s.points.map((p) => p.x));
    if (!xs.length) return;
    const near = xs.reduce((best, each) => (Math.abs(each - x) < Math.abs(best - x) ? each : best));
    cross.setAttribute("x1", px(near));
    cross.setAttribute("x2", px(near));
    cross.setAttribute("visibility", "visible");
    tip.hidden = false;
    const rows = within.map((s) => [s, s.points.find((p) => p.x === near)]).filter(([, p]) => p);
    tip.replaceChildren(
      element("b", {}, `${xLabel} ${number(near)}`),
      ...rows.slice(0, 12).map(([s, p]) => {
        const interval = p.low !== undefined && p.low !== null ? ` [${number(p.low)}, ${number(p.high)}]` : "";
        return element("div", {}, element("i", { style: `background:${s.colour}` }), `${s.name} ${number(p.y)}${interval}`);
      }),
    );
    tip.style.left = px(near) > width / 2 ? "auto" : `${(px(near) / width) * 100 + 2}%`;
    tip.style.right = px(near) > width / 2 ? `${100 - (px(near) / width) * 100 + 2}%` : "auto";
    if (start !== null) {
      const [a, b] = [px(start), px(x)].sort((p, q) => p - q);
      brush.setAttribute("x", a);
      brush.setAttribute("width", b - a);
      brush.setAttribute("visibility", "visible");
    }
  });
  svg.addEventListener("pointerleave", () => {
    cross.setAttribute("visibility", "hidden");
    tip.hidden = true;
  });
  svg.addEventListener("pointerdown", (event) => {
    start = at(event);
    event.preventDefault();
  });
  svg.addEventListener("pointerup", (event) => {
    const [a, b] = [start ?? at(event), at(event)].sort((p, q) => p - q);
    start = null;
    brush.setAttribute("visibility", "hidden");
    if (b - a > (x1 - x0) / 50) zoom(state, [a, b]);
  });
  svg.addEventListener("dblclick", () => zoom(state, null));
  host.append(svg, tip);
  if (named && series.length > 1) host.append(legend(series));
}

/** Show this range of x in all charts of a view; null: everything. */
export function zoom(view, range) {
  view.range = range;
  for (const { redraw } of [...view.charts]) redraw();
}

function legend(series) {
  return element("div", { class: "legend" }, ...series.slice(0, 14).map((s) => element("span", {}, element("i", { style: `background:${s.colour}` }), s.name)));
}

// What is drawn of a run, where it has it: [title, metrics, kind].
export const CURVES = [
  ["held-out pass@1", ["eval.pass@1"], "share"],
  ["reward", ["reward"], "reward"],
  ["right answers", ["pass@1"], "share"],
  ["KL to the reference (nats per token)", ["kl.ref"], ""],
  ["entropy (nats per token)", ["entropy"], ""],
  ["length (tokens)", ["length"], ""],
  ["clipped tokens", ["clip_fraction"], "share"],
  ["groups without signal", ["flat_groups"], "share"],
  ["answers cut off", ["truncated"], "share"],
  ["gradient norm", ["grad_norm.policy"], ""],
  ["turns", ["turns"], ""],
  ["actions that are not valid", ["invalid"], "share"],
  ["seconds of an iteration", ["seconds.sample", "seconds.train"], ""],
  ["sampled tokens per second", ["tokens_per_s"], ""],
  ["gap of sampler and trainer", ["sampler_gap"], ""],
];

/** The numbers of lines of metrics by name; what is nested gets a dot. */
export function columnsOf(lines) {
  const columns = {};
  lines.forEach((line, place) => {
    const put = (name, value) => {
      if (typeof value === "number") (columns[name] ??= new Array(lines.length).fill(null))[place] = value;
    };
    for (const [name, value] of Object.entries(line)) {
      if (value !== null && typeof value === "object") for (const [inner, x] of Object.entries(value)) put(`${name}.${inner}`, x);
      else put(name, value);
    }
    const seconds = Object.values(line.seconds ?? {}).reduce((a, b) => a + b, 0);
    if (seconds && line.tokens) put("tokens_per_s", line.tokens / seconds);
  });
  return columns;
}
