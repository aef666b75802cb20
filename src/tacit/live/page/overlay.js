// The runs that are ticked, drawn side by side: quality, loss and the epsilon spent.

import { chart, look, svg } from "./charts.js";
import { runOf, ticked } from "./table.js";
import { ask, element } from "./words.js";

const MOST = 12;
const PLACES = ["test", "released", "oracle/held_out", "oracle"];
const NAMES = ["accuracy", "concordance", "auc", "r2"];
const chosen = []; // ids; a run keeps its place, and so its colour
const wanted = { quality: "", loss: "" };
let curves = {}, waiting = false, again = false;

export const shows = (id) => chosen.includes(id);

export function pick(id, on) {
  const at = chosen.indexOf(id);
  if (on && at < 0) {
    const free = chosen.indexOf(null);
    if (chosen.filter(Boolean).length >= MOST) {
      ticked(id, false);
      return `At most ${MOST} runs fit into the charts.`;
    }
    if (free >= 0) chosen[free] = id;
    else chosen.push(id);
  } else if (!on && at >= 0) chosen[at] = null;
  ticked(id, on);
  refresh();
  return "";
}

export function clear() {
  for (const id of chosen) if (id) ticked(id, false);
  chosen.length = 0;
  refresh();
}

export async function refresh() {
  const ids = chosen.filter((id) => id && runOf(id));
  document.getElementById("charts").hidden = !ids.length;
  if (!ids.length) return;
  if (waiting) {
    again = true;
    return;
  }
  waiting = true;
  try {
    curves = await ask(`/api/curves?${ids.map((id) => `id=${encodeURIComponent(id)}`).join("&")}`);
    draw(ids);
  } catch { /* the next change asks again */ }
  waiting = false;
  if (again) {
    again = false;
    setTimeout(refresh, 500);
  }
}

function draw(ids) {
  document.getElementById("legend").replaceChildren(...ids.map((id) => {
    const sample = svg("svg", { viewBox: "0 0 32 12", "aria-hidden": "true" });
    sample.append(svg("line", { x1: 0, x2: 32, y1: 6, y2: 6, "stroke-width": 3, ...look(chosen.indexOf(id)) }));
    const off = element("button", { "aria-label": `Remove ${runOf(id).name} from the charts`,
      on: { click: () => pick(id, false) } }, "×");
    return element("li", {}, sample, runOf(id).name, off);
  }));
  const place = document.querySelector("#charts .charts");
  const focused = place.contains(document.activeElement) ? document.activeElement.id : "";
  if (place.querySelector("svg:focus, svg:hover")) return; // somebody reads a value: draw it later
  place.replaceChildren(measured(ids, "quality", "Quality"), measured(ids, "loss", "Loss"), spent(ids));
  if (focused) document.getElementById(focused)?.focus();
}

function best(metrics, kind) {
  const names = kind === "loss" ? ["loss"] : NAMES;
  for (const place of PLACES) for (const name of names) if (metrics.includes(`${place}/${name}`)) return `${place}/${name}`;
  return metrics[0];
}

function measured(ids, kind, title) {
  const all = [...new Set(ids.flatMap((id) => Object.keys(curves[id]?.metrics ?? {})))].sort();
  const metric = all.includes(wanted[kind]) ? wanted[kind] : best(all, kind);
  const select = element("select", { id: `metric-${kind}`, "aria-label": `Metric of the chart ${title}` },
    ...all.map((name) => element("option", { value: name, selected: name === metric }, name)));
  select.addEventListener("change", () => {
    wanted[kind] = select.value;
    draw(ids);
  });
  const lines = ids.map((id) => line(id, curves[id]?.metrics[metric] ?? []));
  const missing = metric ? lines.filter((l) => !l.points.length).map((l) => l.name) : [];
  const oracle = metric?.startsWith("oracle/");
  return element("figure", {},
    element("h3", {}, title),
    all.length ? select : null,
    oracle ? element("span", { class: "oracle" }, "Oracle: it looks at private records. Never publish it.") : null,
    ...chart(`${title}, ${metric ?? "no metric"}`, lines),
    missing.length ? element("span", { class: "small" }, `Not measured by: ${missing.join(", ")}`) : null);
}

function spent(ids) {
  const lines = ids.map((id) => line(id, curves[id]?.epsilon ?? []));
  const budgets = new Set(ids.map((id) => runOf(id).budget));
  const limit = budgets.size === 1 ? [...budgets][0] : null;
  const promises = new Set(ids.map((id) => runOf(id).promise.replace(/; simulated$/, "")).filter(Boolean));
  const told = promises.size > 1 ? `These epsilons do not mean the same: ${[...promises].join(" / ")}`
    : [...promises][0] ?? "";
  return element("figure", {},
    element("h3", {}, "Epsilon spent, by charged rounds"),
    element("span", { class: "small" }, told),
    ...chart("Epsilon spent", lines, { limit: limit ?? null, zero: true }));
}

const line = (id, points) => ({ name: runOf(id).name, index: chosen.indexOf(id), points });
