// Line charts over the rounds, as SVG. A line has the same colour and dashes in all of them.

import { element, number } from "./words.js";

const COLOURS = ["#0083c9", "#e06c00", "#009e73", "#c76a9f", "#b58900", "#6f8fd9"];
const DASHES = ["", "7 4", "2 3", "9 3 2 3"];
const [WIDE, HIGH, LEFT, BOTTOM, TOP, RIGHT] = [420, 260, 50, 36, 14, 12];

export function svg(name, facts = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(facts)) made.setAttribute(key, value);
  return made;
}

export function look(index) {
  return { stroke: COLOURS[index % 6], "stroke-dasharray": DASHES[index % 4] };
}

function ticks(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step) found.push(at);
  return found.map((at) => Number(at.toPrecision(10)));
}

// lines: [{ name, index, points: [[round, value]] }]
export function chart(title, lines, { limit = null, zero = false } = {}) {
  const drawn = lines.map((line) => ({ ...line, points: line.points.filter((p) => p[1] !== null) }))
    .filter((line) => line.points.length);
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", tabindex: "0" });
  const reading = element("figcaption", { "aria-live": "polite" });
  if (!drawn.length) {
    picture.setAttribute("aria-label", `${title}: nothing to show yet`);
    const text = svg("text", { x: WIDE / 2, y: HIGH / 2, "text-anchor": "middle" });
    text.textContent = "nothing to show yet";
    picture.append(text);
    return [picture, reading];
  }
  const xs = drawn.flatMap((l) => [l.points[0][0], l.points.at(-1)[0]]);
  const ys = drawn.flatMap((l) => l.points.map((p) => p[1])).concat(limit === null ? [] : [limit]);
  const [left, right] = [Math.min(...xs), Math.max(...xs, Math.min(...xs) + 1)];
  let [low, high] = [zero ? 0 : ys.reduce((a, b) => Math.min(a, b)), ys.reduce((a, b) => Math.max(a, b))];
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
  const pad = (high - low) * 0.05;
  [low, high] = [zero ? 0 : low - pad, high + pad];
  const across = (x) => LEFT + ((x - left) / (right - left)) * (WIDE - LEFT - RIGHT);
  const up = (y) => HIGH - BOTTOM - ((y - low) / (high - low)) * (HIGH - BOTTOM - TOP);

  for (const y of ticks(low, high, 5)) {
    picture.append(svg("line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: up(y), y2: up(y) }));
    const text = svg("text", { x: LEFT - 6, y: up(y) + 4, "text-anchor": "end" });
    text.textContent = number(y, 3);
    picture.append(text);
  }
  for (const x of ticks(left, right, 5).filter(Number.isInteger)) {
    const text = svg("text", { x: across(x), y: HIGH - BOTTOM + 18, "text-anchor": "middle" });
    text.textContent = x.toLocaleString("en");
    picture.append(text);
  }
  const below = svg("text", { x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 2, "text-anchor": "middle" });
  below.textContent = "round";
  picture.append(below);
  if (limit !== null) {
    picture.append(svg("line", { class: "limit", x1: LEFT, x2: WIDE - RIGHT, y1: up(limit), y2: up(limit) }));
    const text = svg("text", { x: WIDE - RIGHT, y: up(limit) - 4, "text-anchor": "end" });
    text.textContent = "budget";
    picture.append(text);
  }
  for (const line of drawn) {
    const path = line.points.map(([x, y], i) => `${i ? "L" : "M"}${across(x).toFixed(1)} ${up(y).toFixed(1)}`).join("");
    picture.append(svg("path", { class: "line", d: path, ...look(line.index) }));
    if (line.points.length === 1) {
      const [x, y] = line.points[0];
      picture.append(svg("circle", { cx: across(x), cy: up(y), r: 4, fill: look(line.index).stroke }));
    }
  }
  const cross = svg("line", { class: "cross", y1: TOP, y2: HIGH - BOTTOM, visibility: "hidden" });
  picture.append(cross);

  const last = drawn.map((l) => `${l.name} ${number(l.points.at(-1)[1])}`);
  picture.setAttribute("aria-label", `${title} over the rounds. Last values: ${last.slice(0, 12).join("; ")}.`);
  let at = right;
  const read = (x, quiet) => {
    at = Math.round(Math.min(right, Math.max(left, x)));
    cross.setAttribute("x1", across(at));
    cross.setAttribute("x2", across(at));
    cross.setAttribute("visibility", quiet ? "hidden" : "visible");
    const values = drawn.map((l) => {
      const before = l.points.filter((p) => p[0] <= at).at(-1);
      return before ? `${l.name}: ${number(before[1])}` : null;
    }).filter(Boolean);
    reading.textContent = quiet ? `Last: ${last.join("; ")}` : `Round ${at.toLocaleString("en")} – ${values.join("; ")}`;
  };
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect(), x = ((event.clientX - box.left) / box.width) * WIDE;
    read(left + ((x - LEFT) / (WIDE - LEFT - RIGHT)) * (right - left));
  });
  picture.addEventListener("pointerleave", () => read(right, true));
  picture.addEventListener("blur", () => read(right, true));
  picture.addEventListener("keydown", (event) => {
    const step = Math.max(1, Math.round((right - left) / 50));
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    read(at + (event.key === "ArrowLeft" ? -step : step));
  });
  read(right, true);
  return [picture, reading];
}
