// The table of runs: one row each, changed where it differs, sorted and filtered here.

import { ask, bar, element, named, number, percent, say } from "./words.js";

const body = document.querySelector("#runs tbody");
const rows = new Map(); // id -> { run, line, shown }
let key = "name", down = false, words = [];

const VALUES = {
  name: (run) => run.name,
  method: (run) => run.method,
  dataset: (run) => run.dataset,
  state: (run) => run.state,
  round: (run) => (run.rounds ? run.round / run.rounds : run.round),
  epsilon: (run) => run.epsilon ?? (run.known ? Infinity : null),
  quality: (run) => run.quality?.value ?? null,
};
const compare = new Intl.Collator("en", { numeric: true }).compare;

function order(a, b) {
  const [x, y] = [VALUES[key](a.run), VALUES[key](b.run)];
  if (x === null || y === null) return x === y ? compare(a.run.name, b.run.name) : x === null ? 1 : -1;
  const found = typeof x === "string" ? compare(x, y) : x - y || 0;
  return (down ? -found : found) || compare(a.run.name, b.run.name);
}

function matches(run) {
  const text = `${run.name} ${run.method} ${run.dataset} ${run.state} ${run.kind}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

const LABELS = { pick: "Chart", name: "Name", method: "Method", dataset: "Dataset", state: "State", round: "Round",
  epsilon: "Epsilon spent", quality: "Quality", acts: "Actions" };

function epsilon(run) {
  if (!run.known) return [element("span", { class: "small" }, run.state === "broken" ? "not known" : "not computed yet")];
  if (!run.private) return ["no privacy", element("span", { class: "small cut", title: run.promise }, run.promise)];
  const of = run.budget ? ` of ${number(run.budget)} (${percent(run.epsilon, run.budget)})` : "";
  return [
    element("span", {}, `${run.epsilon_text}${of}`),
    run.budget ? bar(run.epsilon, run.budget, `share of the budget spent by ${run.name}`) : null,
    element("span", { class: "small cut", title: run.promise }, run.promise),
  ];
}

function quality(run) {
  if (!run.quality) return ["–"];
  return [
    element("span", {}, number(run.quality.value)),
    element("span", { class: "small" }, run.quality.metric),
    run.quality.oracle ? element("span", { class: "oracle", title: "It looks at private records. Never publish it." },
      "oracle") : null,
  ];
}

function round(run) {
  const of = run.rounds ? ` of ${run.rounds.toLocaleString("en")}` : "";
  return [element("span", {}, `${run.round.toLocaleString("en")}${of}`),
    run.rounds ? bar(run.round, run.rounds, `rounds done by ${run.name}`) : null];
}

function acts(run, on) {
  const found = [element("button", { "aria-label": `Details of ${run.name}`, on: { click: () => on.details(run.id) } },
    "Details")];
  if (run.report) {
    found.push(element("a", { class: "button", href: named("/report", run.id), target: "_blank", rel: "noopener",
      "aria-label": `Report of ${run.name}` }, "Report"));
  } else if (run.reportable) {
    found.push(element("button", { "aria-label": `Make the report of ${run.name}`,
      on: { click: (event) => make(event.target, run.id) } }, "Make report"));
  }
  if (run.stoppable) {
    found.push(element("button", { class: "danger", "aria-label": `Stop ${run.name}`, disabled: run.stopping,
      on: { click: () => on.stop(run) } }, run.stopping ? "Stopping …" : "Stop"));
  }
  return found;
}

async function make(button, id) {
  button.disabled = true;
  button.textContent = "Making …";
  try {
    await ask(named("/api/report", id), "POST");
  } catch (error) {
    say(`The report cannot be made: ${error.message}`);
  }
  button.disabled = false;
  button.textContent = "Make report";
}

const CELLS = {
  pick: null,
  name: (run) => [run.name, run.kind === "deployed" ? element("span", { class: "small" }, "deployed") : null],
  method: (run) => [element("span", {}, run.method || "–")],
  dataset: (run) => [element("span", {}, run.dataset || "–")],
  state: (run) => [element("span", { class: `state ${run.state}` }, run.stopping ? "stopping" : run.state),
    run.note ? element("span", { class: "small note cut", title: run.note }, run.note) : null],
  round,
  epsilon,
  quality,
  acts,
};

function line(run, on) {
  const made = element("tr", { role: "row" });
  for (const name of Object.keys(CELLS)) {
    const kind = name === "round" || name === "quality" ? "count" : name;
    made.append(element("td", { role: "cell", class: kind, "data-label": LABELS[name] }));
  }
  const box = element("input", { type: "checkbox", "aria-label": `Show ${run.name} in the charts` });
  box.addEventListener("change", () => on.pick(run.id, box.checked));
  made.firstChild.append(box);
  return made;
}

export function put(run, on) {
  const row = rows.get(run.id) ?? { line: line(run, on), shown: {} };
  row.run = run;
  rows.set(run.id, row);
  Object.entries(CELLS).forEach(([name, make], index) => {
    if (!make) return;
    const cell = row.line.children[index], made = make(run, on);
    const text = element("div", {}, ...made).innerHTML;
    if (row.shown[name] === text) return; // an open menu or a focused button stays as it is
    row.shown[name] = text;
    const focused = cell.contains(document.activeElement) ? [...cell.children].indexOf(document.activeElement) : -1;
    cell.replaceChildren(...made.filter((part) => part !== null));
    if (focused >= 0) cell.children[Math.min(focused, cell.children.length - 1)].focus();
  });
}

export function remove(id) {
  rows.get(id)?.line.remove();
  rows.delete(id);
}

export function reset(ids) {
  for (const id of [...rows.keys()]) if (!ids.has(id)) remove(id);
}

export function ticked(id, on) {
  const row = rows.get(id);
  if (row) row.line.querySelector("input").checked = on;
}

export const runOf = (id) => rows.get(id)?.run;

export function arrange() {
  const all = [...rows.values()], found = all.filter((row) => matches(row.run)).sort(order);
  const lines = found.map((row) => row.line);
  const same = lines.length === body.children.length && lines.every((made, i) => body.children[i] === made);
  if (!same) {
    const focused = document.activeElement;
    body.replaceChildren(...lines);
    if (body.contains(focused)) focused.focus();
  }
  const running = all.filter((row) => row.run.state === "running").length;
  const shown = found.length === all.length ? "" : `, ${found.length} shown`;
  document.getElementById("count").textContent = `${all.length} runs, ${running} running${shown}`;
  const empty = document.getElementById("empty");
  empty.hidden = found.length > 0;
  empty.textContent = all.length ? "No run matches the filter."
    : "There are no runs here yet. A run appears when it starts: tacit run --out FOLDER";
}

export function listen() {
  document.getElementById("filter").addEventListener("input", (event) => {
    words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    arrange();
  });
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      down = key === button.dataset.key ? !down : false;
      key = button.dataset.key;
      for (const head of document.querySelectorAll("th[aria-sort]")) head.removeAttribute("aria-sort");
      button.closest("th").setAttribute("aria-sort", down ? "descending" : "ascending");
      arrange();
    });
  }
}
