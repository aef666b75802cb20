// The page: it listens to the server's stream and passes every change on.

import { clear, pick, refresh, shows } from "./overlay.js";
import { arrange, listen, put, remove, reset, runOf } from "./table.js";
import { ask, bar, element, named, number, percent, say } from "./words.js";

const live = document.getElementById("live");
const details = document.getElementById("details"), confirm = document.getElementById("confirm");
let opened = null, stopping = null;

const on = {
  pick: (id, yes) => {
    const said = pick(id, yes);
    if (said) say(said);
  },
  details: open,
  stop: (run) => {
    stopping = run.id;
    document.getElementById("confirm-name").textContent = run.name;
    confirm.showModal();
  },
};

document.getElementById("confirm-no").addEventListener("click", () => confirm.close());
document.getElementById("confirm-yes").addEventListener("click", async () => {
  confirm.close();
  try {
    await ask(named("/api/stop", stopping), "POST");
    say("It stops after the rounds that it has begun.");
  } catch (error) {
    say(`It was not stopped: ${error.message}`);
  }
});
document.getElementById("clear").addEventListener("click", clear);
details.addEventListener("close", () => { opened = null; });

async function open(id, again = false) {
  try {
    const found = await ask(named("/api/run", id));
    if (again && opened !== id) return;
    opened = id;
    fill(found);
    if (!details.open) details.showModal();
  } catch (error) {
    say(error.message);
  }
}

function fill({ row, sentence, meaning, config, sites, folder }) {
  document.getElementById("details-title").textContent = row.name;
  const inside = details.querySelector(".inside");
  const reading = inside.querySelector("details")?.open;
  inside.replaceChildren(
    element("p", {}, element("span", { class: `state ${row.state}` }, row.state),
      ` – round ${row.round.toLocaleString("en")}${row.rounds ? ` of ${row.rounds.toLocaleString("en")}` : ""}`),
    row.note ? element("p", { class: "note" }, row.note) : "",
    element("h3", {}, row.state === "running" ? "Guarantee of what is spent so far" : "Guarantee"),
    element("p", { class: row.simulated ? "guarantee simulated" : "guarantee" },
      sentence || "It is not known yet: the ledger has not been read."),
    meaning ? element("p", {}, meaning) : "",
    row.budget && row.private ? element("p", {},
      `That is ${percent(row.epsilon, row.budget)} of the budget of epsilon = ${number(row.budget)} for the whole run.`,
      bar(row.epsilon, row.budget, "share of the budget spent")) : "",
    row.state === "running" && row.kind === "simulated" && !row.stoppable ? element("p", {},
      "It cannot be stopped from here: it runs on another machine or in a thread, or it ignores interrupts.") : "",
    row.oracle ? element("p", { class: "oracle" },
      "Metrics called oracle look at private records. The guarantee does not count them. Never publish them.") : "",
    sites.length ? element("h3", {}, "Sites") : "",
    sites.length ? element("ul", { class: "sites" }, ...sites.map(site)) : "",
    element("p", { class: "small" }, `Folder: ${folder}`),
    element("details", { open: Boolean(reading) }, element("summary", {}, "Configuration"),
      element("pre", { tabindex: "0" }, config)),
  );
}

function site(found) {
  if (found.error) return element("li", {}, element("strong", {}, found.name), element("p", {}, found.error));
  if (found.budget === undefined) {
    return element("li", {}, element("strong", {}, found.name),
      element("p", {}, "Its folder is not here. Only the site knows what it has spent."));
  }
  const share = found.spent === null ? "no bound on what is spent"
    : `epsilon ${found.spent_text} of ${number(found.budget)} at delta ${found.delta}`
      + ` (${percent(found.spent, found.budget)})`;
  return element("li", {}, element("strong", {}, found.name), element("p", {}, share),
    bar(found.spent ?? found.budget, found.budget, `share of its budget spent by ${found.name}`),
    element("p", { class: "small" }, found.sentence));
}

function showSites(sites) {
  const place = document.getElementById("sites");
  place.hidden = !sites.length;
  place.querySelector("ul").replaceChildren(...sites.map(site));
}

function showComparisons(names) {
  const place = document.getElementById("comparisons");
  place.hidden = !names.length;
  place.querySelector("ul").replaceChildren(...names.map((name) => element("li", {},
    element("a", { href: named("/report", name), target: "_blank", rel: "noopener" }, name))));
}

function change(runs, gone = []) {
  let drawn = gone.some(shows);
  for (const run of runs) {
    const before = runOf(run.id);
    drawn ||= shows(run.id) && JSON.stringify(before?.curves) !== JSON.stringify(run.curves);
    put(run, on);
    if (opened === run.id) open(run.id, true);
  }
  for (const id of gone) {
    if (shows(id)) pick(id, false);
    remove(id);
  }
  arrange();
  if (drawn) refresh();
}

function connect() {
  const stream = new EventSource("/events");
  stream.addEventListener("open", () => {
    live.textContent = "live";
    live.className = "on";
  });
  stream.addEventListener("error", () => {
    live.textContent = "not connected, trying again";
    live.className = "";
    if (stream.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  });
  stream.addEventListener("all", (event) => {
    const found = JSON.parse(event.data);
    document.getElementById("folder").textContent = found.folder;
    document.getElementById("folder").title = found.path;
    document.title = `${found.folder} – Tacit runs`;
    reset(new Set(found.rows.map((run) => run.id)));
    change(found.rows);
    showSites(found.sites);
    showComparisons(found.comparisons);
    if (!found.complete) say("There are too many folders here to look into all of them: serve a smaller one.");
    refresh();
  });
  stream.addEventListener("changed", (event) => {
    const found = JSON.parse(event.data);
    if (found.rows || found.gone) change(found.rows ?? [], found.gone ?? []);
    if (found.sites) showSites(found.sites);
  });
}

// The cookie is set: the token need not stay in the address, where others may read it.
if (location.search) history.replaceState(null, "", location.pathname);
listen();
connect();
