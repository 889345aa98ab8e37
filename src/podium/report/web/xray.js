// Rollouts token by token: the view of `podium.analysis.token_view`, drawn.

import { element, number } from "./charts.js";

const COMMON = [["push", "push: what the update does"], ["credit", "credit: advantage times weight"], ["turn", "credit of the turn"], ["ratio", "importance ratio"], ["logp", "log-probability"], ["entropy", "entropy"]];
const NS = "http://www.w3.org/2000/svg";

/** [token] what colours show, of a method; null: the method drops the rollout, or has no such value. */
export function valuesOf(rollout, method, by) {
  const seen = rollout.methods[method];
  if (by === "logp") return seen?.logp ?? rollout.logp;
  if (by === "entropy") return rollout.entropy;
  if (!seen) return null;
  if (by === "turn") return rollout.turns.flatMap((turn, n) => new Array(turn.end - turn.start).fill(seen.turns[n]));
  if (by === "ratio") return seen.ratio && seen.ratio.map((r) => (r === null ? null : Math.log(r)));
  return seen[by] ?? seen.parts[by] ?? seen.terms[by] ?? null;
}

/** Blue where a value is above 0, red where below; one-sided values in orange. */
export function colour(value, most, by) {
  if (value === null || value === undefined || !most) return "transparent";
  const strength = Math.min(1, Math.abs(value) / most) ** 0.7 * 0.75;
  if (by === "entropy" || by === "logp") return `rgba(217,138,11,${strength.toFixed(3)})`;
  return value > 0 ? `rgba(59,130,246,${strength.toFixed(3)})` : `rgba(229,72,77,${strength.toFixed(3)})`;
}

function largest(groups, methods, by) {
  const sizes = groups.flatMap((g) => g.rollouts.flatMap((r) => methods.flatMap((m) => (valuesOf(r, m, by) ?? []).map((v) => Math.abs(v ?? 0)))));
  sizes.sort((a, b) => a - b);
  return sizes[Math.floor(0.98 * (sizes.length - 1))] || sizes[sizes.length - 1] || 0; // outliers must not hide the rest
}

/** Draw a view into `host`, with its controls. `options`: {by, only, search, group}. */
export function drawXray(host, view, options = {}) {
  const state = { by: "push", only: "all", search: "", shown: 4, ...options };
  const choices = [...COMMON];
  const named = new Set(view.groups.flatMap((g) => g.rollouts.flatMap((r) => Object.values(r.methods).flatMap((m) => [...Object.keys(m.parts), ...Object.keys(m.terms)]))));
  for (const name of named) choices.push([name, `changed by ${name}`]);
  if (!options.only && !options.search && view.groups.some((g) => !g.flat)) state.only = "mixed";
  const first = view.groups[0]?.rollouts[0]?.methods ?? {};
  if (state.by === "push" && !Object.values(first).some((m) => m.push)) state.by = "credit";
  const tip = element("div", { class: "tip token-tip", hidden: true });
  const body = element("div", { class: "xray" });
  const legend = element("span", { class: "muted scale" });

  const matches = (rollout) =>
    (state.only === "all" || (state.only === "right") === rollout.correct) &&
    (!state.search || `${rollout.text ?? ""}`.toLowerCase().includes(state.search.toLowerCase()));

  function draw() {
    const groups = view.groups
      .filter((g) => state.only !== "mixed" || !g.flat)
      .map((g) => ({ ...g, rollouts: state.only === "mixed" ? g.rollouts : g.rollouts.filter(matches) }))
      .filter((g) => g.rollouts.length && (!state.search || g.task.includes(state.search) || g.rollouts.some(matches)));
    const most = largest(groups, view.methods, state.by);
    legend.textContent = most ? `full colour at ±${number(state.by === "ratio" ? Math.exp(most) : most)}` : "all values are 0";
    body.replaceChildren(...groups.slice(0, state.shown).map((group) => drawGroup(group, view.methods, state.by, most, tip)));
    if (groups.length > state.shown) {
      const more = element("button", { onclick: () => { state.shown += 8; draw(); } }, `${groups.length - state.shown} more groups`);
      body.append(more);
    }
    if (!groups.length) body.append(element("p", { class: "muted" }, "No rollout matches."));
  }

  const select = (label, value, list, change) =>
    element("label", {}, label, element("select", { "data-control": label, onchange: (e) => { change(e.target.value); draw(); } }, ...list.map(([key, text]) => element("option", { value: key, selected: key === value }, text))));
  const controls = element(
    "div", { class: "controls" },
    select("colour", state.by, choices, (v) => { state.by = v; }),
    select("show", state.only, [["all", "all rollouts"], ["mixed", "groups with a difference"], ["right", "right ones"], ["wrong", "wrong ones"]], (v) => { state.only = v; }),
    element("label", {}, "search", element("input", { type: "search", value: state.search, oninput: (e) => { state.search = e.target.value; draw(); } })),
    legend,
  );
  host.replaceChildren(controls, body, tip);
  draw();
}

function drawGroup(group, methods, by, most, tip) {
  const head = element("summary", {}, element("b", {}, group.task), ` · ${group.rollouts.length} rollouts${group.flat ? " · all rewards equal" : ""}`);
  const tree = drawTree(group);
  return element("details", { class: "group", open: true }, head, element("pre", { class: "world" }, group.prompt), tree, element("div", { class: methods.length > 1 ? "" : "beside" }, ...group.rollouts.map((rollout) => drawRollout(rollout, methods, by, most, tip))));
}

function drawRollout(rollout, methods, by, most, tip) {
  const verdict = element("span", { class: rollout.correct ? "yes" : "no" }, rollout.correct ? "right" : "wrong");
  const ended = rollout.stop && rollout.stop !== "end" ? ` · ended by ${rollout.stop}` : "";
  const turns = rollout.turns.length > 1 ? ` · ${rollout.turns.length} turns` : "";
  const columns = methods.map((method) => drawMethod(rollout, method, methods.length > 1, by, most, tip));
  return element("div", { class: "rollout" }, verdict, ` · reward ${number(rollout.reward)}${turns}${ended}`, element("div", { class: "sides" }, ...columns));
}

function drawMethod(rollout, method, named, by, most, tip) {
  const seen = rollout.methods[method], values = valuesOf(rollout, method, by);
  const side = element("div", { class: "side" });
  if (named) side.append(element("div", { class: "turn" }, seen ? method : `${method}: dropped`));
  for (const [part, change] of Object.entries(seen?.rewards ?? {})) side.append(element("div", { class: "turn" }, `${part}: reward ${change > 0 ? "+" : ""}${number(change)}`));
  rollout.turns.forEach((turn, n) => {
    if (rollout.turns.length > 1) {
      const credit = seen?.turns[n];
      const notes = [`turn ${n + 1}`, turn.agent, credit !== null && credit !== undefined ? `credit ${credit > 0 ? "+" : ""}${number(credit)}` : null, turn.reward ? `reward ${number(turn.reward)}` : null, turn.valid === false ? "not valid" : null];
      side.append(element("div", { class: "turn" }, notes.filter(Boolean).join(" · ")));
    }
    const text = element("div", { class: "tokens" });
    for (let i = turn.start; i < turn.end; i++) {
      const value = values?.[i], token = rollout.tokens[i];
      const span = element("span", { class: "token", style: `background:${colour(value, most, by)}` }, token === "\n" ? "⏎\n" : token);
      span.addEventListener("pointerenter", (event) => showToken(tip, event, rollout, method, i));
      span.addEventListener("pointerleave", () => { tip.hidden = true; });
      text.append(span);
    }
    side.append(text);
    if (turn.observation) side.append(element("pre", { class: "world" }, turn.observation));
  });
  return side;
}

function showToken(tip, event, rollout, method, i) {
  const seen = rollout.methods[method];
  const row = (name, value) => element("div", {}, `${name} `, element("b", {}, number(value)));
  const rows = [row("log-probability", rollout.logp?.[i]), row("entropy", rollout.entropy?.[i])];
  if (seen) {
    rows.push(row("ratio", seen.ratio?.[i]), row("credit", seen.credit[i]));
    if (seen.push) rows.push(row("push", seen.push[i]));
    for (const [name, values] of Object.entries(seen.parts)) if (values[i]) rows.push(row(`by ${name}`, values[i]));
    for (const [name, values] of Object.entries(seen.terms)) if (values[i]) rows.push(row(`push of ${name}`, values[i]));
  }
  tip.replaceChildren(element("b", {}, JSON.stringify(rollout.tokens[i])), element("span", { class: "muted" }, ` token ${i + 1}, ${method}`), ...rows);
  tip.hidden = false;
  const box = event.target.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(box.left, window.innerWidth - 260)) + window.scrollX}px`;
  tip.style.top = `${box.bottom + 6 + window.scrollY}px`;
}

// -- trees ----------------------------------------------------------------------------------------------------------

function shape(name, attributes, ...children) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The segments of a group as a tree: one vertex for each way along their keys. */
export function grown(rollouts) {
  const root = { start: 0, end: 0, children: [], rollouts: [] }, byWay = new Map();
  for (const rollout of rollouts) {
    let above = root, way = "";
    for (const node of rollout.nodes) {
      way += `/${node.key}`;
      if (!byWay.has(way)) {
        byWay.set(way, { start: node.start, end: node.end, value: node.value, children: [], rollouts: [] });
        above.children.push(byWay.get(way));
      }
      above = byWay.get(way);
      above.rollouts.push(rollout);
    }
  }
  for (const vertex of byWay.values()) vertex.value ??= vertex.rollouts.reduce((sum, r) => sum + r.reward, 0) / vertex.rollouts.length;
  return root;
}

/** A tree from left to right, as long as its text: blue where what follows is worth much, red where little. */
function drawTree(group) {
  if (!group.rollouts.some((rollout) => rollout.nodes.length > 1)) return null;
  const root = grown(group.rollouts.filter((r) => r.nodes.length)), all = [];
  let row = 0;
  (function place(vertex) {
    vertex.children.forEach(place);
    vertex.y = vertex.children.length ? (vertex.children[0].y + vertex.children[vertex.children.length - 1].y) / 2 : row++;
    all.push(vertex);
  })(root);
  const width = 760, longest = Math.max(...all.map((v) => v.end)) || 1, height = 26 + row * 17;
  const px = (token) => 10 + (token / longest) * (width - 110), py = (y) => 14 + y * 17;
  const values = all.filter((v) => v !== root).map((v) => v.value), middle = values.reduce((a, b) => a + b, 0) / values.length;
  const most = Math.max(...values.map((v) => Math.abs(v - middle)));
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "tree", role: "img", "aria-label": `rollouts of ${group.task} as a tree` });
  for (const vertex of all) {
    for (const child of vertex.children) svg.append(shape("line", { x1: px(vertex.end), x2: px(vertex.end), y1: py(vertex.y), y2: py(child.y), class: "branch" }));
    if (vertex === root) continue;
    const tint = most ? colour(vertex.value - middle, most, "value") : "#8b94a3";
    const title = shape("title", {}, `tokens ${vertex.start + 1} to ${vertex.end}, ${vertex.rollouts.length} rollouts, worth ${number(vertex.value)}`);
    svg.append(shape("line", { x1: px(vertex.start), x2: px(vertex.end), y1: py(vertex.y), y2: py(vertex.y), class: "base" }));
    svg.append(shape("line", { x1: px(vertex.start), x2: px(vertex.end), y1: py(vertex.y), y2: py(vertex.y), stroke: tint, "stroke-width": 6, "stroke-linecap": "round" }, title));
    if (!vertex.children.length) svg.append(shape("text", { x: px(vertex.end) + 8, y: py(vertex.y) + 4, class: "tick" }, `${vertex.rollouts[0].correct ? "✓" : "✗"} ${number(vertex.rollouts[0].reward)}`));
  }
  const box = document.createElement("div");
  box.className = "forest";
  box.append(svg);
  return box;
}
