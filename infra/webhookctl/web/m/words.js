// Times, numbers, states and commands, as every page shows them.
import { button, h, stored } from "./h.js";

let utc = stored("zone") === "utc";
export const isUtc = () => utc;
export function switchZone() {
  utc = !utc;
  stored("zone", utc ? "utc" : "local");
}

const two = "2-digit";
const format = (at, how) =>
  new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", timeZone: utc ? "UTC" : undefined,
    ...how }).format(new Date(at));
export const clock = (at, fine = false) =>
  format(at, { hour: two, minute: two, second: two, fractionalSecondDigits: fine ? 3 : undefined });
export const hourMinute = (at) => format(at, { hour: two, minute: two });
export const day = (at) => format(at, { day: "numeric", month: "short" });

/** The time alone for the last twelve hours, otherwise with the day. */
export function when(at, fine = false) {
  if (!at) return "–";
  const near = Math.abs(Date.now() - Date.parse(at)) < 432e5;
  return h("time", { datetime: at, title: at }, near ? clock(at, fine) : `${day(at)}, ${hourMinute(at)}`);
}

/** @param {any} s @returns {string} `9s`, `36m`, `1h02m`, `3d4h` */
export function span(s) {
  if (s === null || s === undefined) return "–";
  if (s < 0) return `-${span(-s)}`;
  if (s < 1) return `${Math.round(s * 1000)}ms`;
  if (s < 10) return `${Math.floor(s * 10) / 10}s`;
  const part = (unit) => Math.floor(s / unit), rest = (unit, of) => Math.floor(s % unit / of);
  const pad = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${part(1)}s`;
  if (s < 3600) return `${part(60)}m${s < 600 && rest(60, 1) ? `${pad(rest(60, 1))}s` : ""}`;
  if (s < 86400) return `${part(3600)}h${pad(rest(3600, 60))}m`;
  return `${part(86400)}d${s < 864e3 && rest(86400, 3600) ? `${rest(86400, 3600)}h` : ""}`;
}
/** How long ago, in whole seconds at least. @param {any} at @param {any} [asOf] */
export function age(at, asOf = Date.now()) {
  if (!at) return "–";
  const s = Math.max(0, Math.floor((Number(new Date(asOf)) - Date.parse(at)) / 1000));
  return s ? span(s) : "now";
}
/** An age that carries its time. @param {any} at @param {any} [asOf] */
export const ago = (at, asOf, after = "") => at ? h("time", { datetime: at, title: at }, age(at, asOf) + after) : "–";

/** How long until a time. */
export function left(at, asOf) {
  const s = (Date.parse(at) - Date.parse(asOf)) / 1000;
  return h(`time${s < 3600 ? ".warn" : ""}`, { datetime: at, title: at }, s > 0 ? span(s) : "expired");
}

/** @param {any} n */
export const num = (n) => n === null || n === undefined ? "–" : n.toLocaleString("en-US", { maximumFractionDigits: 2 });
export const count = (c) => c ? `${num(c.count)}${c.or_more ? "+" : ""}` : "–";
export const plural = (n, one, many = `${one}s`) => `${num(n)} ${n === 1 ? one : many}`;
export const size = (n) => n < 10240 ? plural(n, "byte") : n < 1048576 ? `${num(n >> 10)} KB`
  : `${num(n / 1048576)} MB`;
export const short = (id) => id.startsWith("evt_") ? id.slice(0, 15) : id;
export const words = (word) => word.replace(/_/g, " ");

const LINES = {
  ring: "M6 2.4a3.6 3.6 0 1 0 .01 0z", diamond: "M6 1.4 10.6 6 6 10.6 1.4 6z",
    loop: "M9.6 4.4A4 4 0 1 0 10 6.6M10.6 1.8v3.4H7.2",
  half: "M6 2.4a3.6 3.6 0 1 0 .01 0v7.2",
};
const AREAS = {
  circle: "M6 2a4 4 0 1 0 .01 0z", triangle: "M6 1.6 11 10.4H1z", square: "M1.8 1.8h8.4v8.4H1.8z",
};
/** The path of a shape, in a square of 12. */
export const shape = (name) => name in LINES ? h("path.line", { d: LINES[name] })
  : h("path", { d: AREAS[name] });
/** A shape in the colour of a state; the word stands beside it. */
export const mark = (name, tone) => h(`svg.mark.${tone}`, { viewBox: "0 0 12 12" }, shape(name));

/** The shape and the tone of each state; other states are a dim ring. @type {Map<string, [string, string]>} */
const STATES = new Map(`circle ok done ok pass closed committed finished
triangle warn failed late warn unknown behind different gone
square bad bad dead_letter failing dark fail open stopped lost missing
diamond hold quarantined paused cancelled expired hold held
half info processing running applying
half warn half_open intent
ring warn silent quiet`.split("\n").flatMap((line) => {
  const [name, tone, ...states] = line.split(" ");
  return states.map((word) => /** @type {any} */ ([word, [name, tone]]));
}));
/** @returns {[string, string]} */
export const look = (word) => STATES.get(word) ?? ["ring", "dim"];
/** Shape, word and colour of a state. */
export const state = (word, text = words(word)) => {
  const [name, tone] = look(word);
  return h(`span.state.${tone}`, mark(name, tone), h("span", text));
};

/** The state of an event, which is `held` while it waits for an approval. */
export const statusOf = (e) => e.held_by || e.hold ? "held" : e.status;

/** A button that copies. `name` is what a screen reader says. @param {() => string} text @param {any} [name] */
export function copy(text, label = "Copy", name) {
  const made = button(label, async () => {
    let said = "Copied";
    try { await navigator.clipboard.writeText(text()); } catch { said = "Not allowed"; }
    made.textContent = said;
    setTimeout(() => { made.textContent = label; }, 1500);
  }, ".small", { "aria-label": name });
  return made;
}
/** A command with a button to copy it. */
export const command = (text) =>
  text ? h("span.command", h("code", text), copy(() => text, "Copy", "Copy command")) : null;

export const effect = (hold) => hold.effect === "*" ? "the event as a whole" : hold.effect;
/** Paths in a body that a rule read, with their values if they were read. */
export const readBy = (read) => read.map(({ path, values }) => h("div", h("code", path),
  values ? [" = ", h("b.foreign", values.join(", ") || "missing")] : null));
/** What an approval is about: all that a worker declared, as the text of a stranger. */
export const waits = (doc) => facts([["Would send", h("b.foreign", doc.summary)], ["Effect", effect(doc)],
  ["Rule", `${doc.rule}: ${doc.reason}`], ["The rule read", doc.read.length > 0 && readBy(doc.read)],
  ...Object.entries(doc.declared ?? {}).map(([name, text]) => [`Worker's ${name}`, name === "full"
    ? h("pre.code.foreign", { tabindex: 0, role: "region", "aria-label": "Plan" }, text)
    : h("span.mono.foreign", text)])]);

/** Rows of names and values, without those that have no value. */
export const facts = (rows, more = "") => h(`dl.facts${more}`, rows
  .filter(([, value]) => value !== null && value !== undefined && value !== false)
  .map(([name, value]) => h("div", h("dt", name), h("dd", value))));
