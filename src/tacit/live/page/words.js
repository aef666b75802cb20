// Small parts of the page. Texts of runs come from folders that anybody may have named: they are always text.

export function element(name, facts = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(facts)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") made.className = value;
    else if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (key in made && typeof value !== "string") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...inside.filter((part) => part !== null && part !== undefined && part !== ""));
  return made;
}

export function number(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
}

export function bar(value, most, label) {
  const share = most > 0 ? value / most : 0;
  return element("progress", { max: "1", value: String(Math.min(1, share)), "aria-label": label,
    class: share > 1.000001 ? "full" : null });
}

export function percent(value, most) {
  if (!(most > 0)) return "";
  const share = (100 * value) / most;
  return share > 0 && share < 1 ? "under 1 %" : `${Math.ceil(share - 1e-9)} %`;
}

let timer = 0;
export function say(sentence) {
  const place = document.getElementById("said");
  place.textContent = sentence;
  place.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => { place.hidden = true; }, 8000);
}

export async function ask(address, method = "GET") {
  const csrf = document.querySelector("meta[name=csrf]").content;
  const answer = await fetch(address, { method, headers: method === "POST" ? { "x-tacit-page": csrf } : {} });
  const found = await answer.json().catch(() => ({ error: "the live view does not answer." }));
  if (!answer.ok) throw new Error(found.error || "the live view refuses this.");
  return found;
}

export const named = (address, id) => `${address}?id=${encodeURIComponent(id)}`;
