// @ts-check
// Times, numbers, states and commands, as every page shows them.
import { h } from "./h.js";

let utc = false;
try { utc = localStorage.getItem("zone") === "utc"; } catch { /* no storage */ }
export const isUtc = () => utc;
export function switchZone() {
  utc = !utc;
  try { localStorage.setItem("zone", utc ? "utc" : "local"); } catch { /* no storage */ }
}

/** @param {Date} at @param {Intl.DateTimeFormatOptions} how */
const format = (at, how) => new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", ...(utc ? { timeZone: "UTC" } : {}), ...how }).format(at);
/** @param {string | Date} at */
export const clock = (at, fine = false) => format(new Date(at), { hour: "2-digit", minute: "2-digit", second: "2-digit", ...(fine ? { fractionalSecondDigits: 3 } : {}) });
/** @param {string | Date} at */
export const hourMinute = (at) => format(new Date(at), { hour: "2-digit", minute: "2-digit" });
/** @param {string | Date} at */
export const day = (at) => format(new Date(at), { day: "numeric", month: "short" });

/** The time alone for the last twelve hours, otherwise with the day. @param {string | null} at */
export function when(at, fine = false) {
  if (!at) return "–";
  const date = new Date(at);
  const near = Math.abs(Date.now() - date.getTime()) < 432e5;
  return h("time", { datetime: at, title: at }, near ? clock(date, fine) : `${day(date)}, ${hourMinute(date)}`);
}

/** @param {number | null | undefined} s @returns {string} `9s`, `36m20s`, `1h02m`, `3d4h` */
export function span(s) {
  if (s === null || s === undefined) return "–";
  if (s < 0) return `-${span(-s)}`;
  if (s < 1) return `${Math.round(s * 1000)}ms`;
  if (s < 10) return `${Math.floor(s * 10) / 10}s`;
  s = Math.floor(s);
  const two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s}s`;
  if (s < 3600) return s % 60 && s < 600 ? `${Math.floor(s / 60)}m${two(s % 60)}s` : `${Math.floor(s / 60)}m`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${two(Math.floor((s % 3600) / 60))}m`;
  return s < 864000 && s % 86400 >= 3600 ? `${Math.floor(s / 86400)}d${Math.floor((s % 86400) / 3600)}h` : `${Math.floor(s / 86400)}d`;
}
/** @param {string | null | undefined} at @param {string | number | Date} [asOf] @returns {string} how long ago, in whole seconds at least */
export function age(at, asOf = Date.now()) {
  if (!at) return "–";
  return span(Math.max(0, Math.floor((new Date(asOf).getTime() - new Date(at).getTime()) / 1000))).replace(/^0ms$/, "now").replace(/^(\d+)\.\d+s$/, "$1s");
}
/** An age that carries its time. @param {string | null | undefined} at @param {any} [asOf] @param {string} [after] */
export const ago = (at, asOf, after = "") => at ? h("time", { datetime: at, title: at }, age(at, asOf) + after) : "–";

/** @param {number | null | undefined} n */
export const num = (n) => n === null || n === undefined ? "–" : n.toLocaleString("en-US", { maximumFractionDigits: 2 });
/** @param {{count: number, or_more?: boolean} | null | undefined} c */
export const count = (c) => c ? `${num(c.count)}${c.or_more ? "+" : ""}` : "–";
/** @param {number} n @param {string} one @param {string} [many] */
export const plural = (n, one, many = `${one}s`) => `${num(n)} ${n === 1 ? one : many}`;
/** @param {number} n */
export const size = (n) => n < 10240 ? `${num(n)} bytes` : n < 1048576 ? `${num(Math.round(n / 1024))} KB` : `${num(n / 1048576)} MB`;
/** @param {string} id */
export const short = (id) => id.startsWith("evt_") ? id.slice(0, 15) : id;
/** @param {string} word */
export const words = (word) => word.replace(/_/g, " ");
/** @param {string} text */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const SHAPES = {
  circle: () => h("circle", { cx: 6, cy: 6, r: 4 }), ring: () => h("circle", { cx: 6, cy: 6, r: 3.6, class: "line" }),
  half: () => [h("circle", { cx: 6, cy: 6, r: 3.6, class: "line" }), h("path", { d: "M6 2.4a3.6 3.6 0 0 1 0 7.2z" })],
  triangle: () => h("path", { d: "M6 1.6 11 10.4H1z" }), square: () => h("rect", { x: 1.8, y: 1.8, width: 8.4, height: 8.4, rx: 1 }),
  diamond: () => h("path", { d: "M6 1.4 10.6 6 6 10.6 1.4 6z", class: "line" }),
  loop: () => [h("path", { d: "M9.6 4.4A4 4 0 1 0 10 6.6", class: "line" }), h("path", { d: "M10.6 1.8v3.4H7.2z" })],
  key: () => h("path", { d: "M3 6h6M6 3v6", class: "line" }),
};
/** @typedef {keyof typeof SHAPES} Shape */
/** A shape in the colour of a state; the word stands beside it. @param {Shape} shape @param {string} tone */
export const mark = (shape, tone) => h("svg", { class: `mark ${tone}`, viewBox: "0 0 12 12", "aria-hidden": "true", focusable: "false" }, SHAPES[shape]());

/** @type {Map<string, [Shape, string]>} the shape and the tone of each state */
const STATES = new Map(Object.entries(/** @type {Record<string, [Shape, string]>} */ ({
  done: ["circle", "ok"], failed: ["triangle", "warn"], dead_letter: ["square", "bad"], quarantined: ["diamond", "hold"],
  received: ["ring", "dim"], processing: ["half", "info"],
  ok: ["circle", "ok"], late: ["triangle", "warn"], failing: ["square", "bad"], silent: ["ring", "warn"], quiet: ["ring", "warn"], paused: ["diamond", "hold"], dark: ["square", "bad"],
  pass: ["circle", "ok"], warn: ["triangle", "warn"], fail: ["square", "bad"], not_checked: ["ring", "dim"],
  bad: ["square", "bad"], note: ["ring", "dim"],
  closed: ["circle", "ok"], open: ["square", "bad"], half_open: ["half", "warn"],
  committed: ["circle", "ok"], not_committed: ["ring", "dim"], unknown: ["triangle", "warn"], intent: ["half", "warn"],
  planned: ["ring", "dim"], running: ["half", "info"], applying: ["half", "info"], finished: ["circle", "ok"], stopped: ["square", "bad"], cancelled: ["diamond", "hold"], expired: ["diamond", "hold"],
  behind: ["triangle", "warn"], "no sync": ["ring", "dim"], lost: ["square", "bad"], missing: ["square", "bad"], different: ["triangle", "warn"], gone: ["triangle", "warn"],
})));
/** @param {string} word @returns {[Shape, string]} */
export const look = (word) => STATES.get(word) ?? ["ring", "dim"];
/** Shape, word and colour of a state. @param {string} word @param {string} [text] */
export const state = (word, text) => { const [shape, tone] = look(word); return h("span", { class: `state ${tone}` }, mark(shape, tone), h("span", text ?? words(word))); };

/** A button that copies. @param {() => string} text @param {string} [label] @param {string} [name] what a screen reader says */
export function copy(text, label = "Copy", name) {
  const button = h("button", { class: "small", "aria-label": name, on: { click: async () => {
    try { await navigator.clipboard.writeText(text()); button.textContent = "Copied"; } catch { button.textContent = "Not allowed"; }
    setTimeout(() => { button.textContent = label; }, 1500);
  } } }, label);
  return button;
}
/** A command with a button to copy it. @param {string | null | undefined} text */
export const command = (text) => text ? h("span.command", h("code", text), copy(() => text, "Copy", "Copy command")) : null;

/** Rows of names and values. @param {[any, any][]} rows @param {string} [more] */
export const facts = (rows, more = "") => h("dl", { class: `facts ${more}` }, rows.filter(([, value]) => value !== null && value !== undefined && value !== false)
  .map(([name, value]) => h("div", h("dt", name), h("dd", value))));
