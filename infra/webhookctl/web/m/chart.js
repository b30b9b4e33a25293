// @ts-check
// Charts of hours: bars with axes, a readout, a sentence for screen readers, and a table with the same numbers.
import { fill, h } from "./h.js";
import { day, hourMinute, num } from "./words.js";

/** @typedef {{at: string, parts: number[], counted: boolean, open?: boolean}} Bar */
/** @typedef {{name: string, class: string}} Series */

const MARGIN = { top: 10, right: 4, bottom: 20, left: 40 };

/** A round number not below `n` for the top of an axis. @param {number} n */
export function top(n) {
  if (n <= 4) return Math.max(1, n);
  const ten = 10 ** Math.floor(Math.log10(n));
  return ten * ([1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * ten >= n) ?? 10);
}
/** @param {number} n */
const axis = (n) => n >= 1e6 ? `${num(n / 1e6)}M` : n >= 1e3 ? `${num(n / 1e3)}k` : num(Math.round(n * 10) / 10);

/**
 * @param {{series: Series[], height?: number, unit: string, stepS: number, name: string, compact?: boolean, pick?: (from: string, until: string) => void}} how
 */
export function bars({ series, height = 168, unit, stepS, name, compact = false, pick }) {
  const readout = h("p.readout", { "aria-live": "off" });
  const box = h("div", { class: `chart ${compact ? "compact" : ""} ${pick ? "picks" : ""}` });
  const sentence = h("span.vh");
  const twin = h("div.tablebox.twin", { hidden: true, tabindex: 0, role: "region", "aria-label": `${name}, as a table` });
  const node = h("div.chartbox", h("div.legend", readout), box, twin, sentence);
  /** @type {Bar[]} */
  let data = [];
  let width = 0;
  let cursor = -1;
  /** @type {[number, number] | null} */
  let range = null;
  let dragging = false;
  const m = compact ? { ...MARGIN, left: 40, top: 6 } : MARGIN;
  const total = (bar) => bar.parts.reduce((a, b) => a + b, 0);
  const endOf = (bar) => new Date(new Date(bar.at).getTime() + stepS * 1000).toISOString();

  function sums() {
    const bar = data[cursor];
    const of = bar ? bar.parts : series.map((_, i) => data.reduce((n, b) => n + b.parts[i], 0));
    const label = bar ? `${stepS >= 86400 ? day(bar.at) : `${day(bar.at)}, ${hourMinute(bar.at)}–${hourMinute(endOf(bar))}`}` : name;
    fill(readout, h("b", label), series.map((s, i) => h("span", { class: `key ${s.class}` }, `${s.name} `, h("b", num(of[i])))),
      bar && !bar.counted ? h("span.dim", "not counted yet") : bar?.open ? h("span.dim", "so far") : null);
  }

  function draw() {
    if (!width || !data.length) return;
    const inner = { w: width - m.left - m.right, h: (compact ? 64 : height) - m.top - m.bottom };
    const high = top(Math.max(1, ...data.map(total)));
    const slot = inner.w / data.length;
    const gap = slot > 14 ? 3 : slot > 5 ? 1 : 0;
    const y = (n) => m.top + inner.h - n / high * inner.h;
    const x = (i) => m.left + i * slot;
    const parts = [];
    const lines = compact ? [0, high] : high <= 4 ? Array.from({ length: high + 1 }, (_, i) => i) : [0, high / 2, high];
    for (const n of lines) {
      parts.push(h("line", { class: n ? "grid" : "base", x1: m.left, x2: width - m.right, y1: Math.round(y(n)) + .5, y2: Math.round(y(n)) + .5 }),
        h("text", { x: m.left - 8, y: y(n), class: "tick end", "dominant-baseline": "middle" }, axis(n)));
    }
    const every = Math.max(1, Math.ceil(64 / slot));
    const steps = stepS < 3600 ? [every] : stepS >= 86400 ? [1, 7, 14] : [1, 3, 6, 12, 24, 48, 96, 168];
    const stride = steps.find((s) => s >= every) ?? every;
    data.forEach((bar, i) => {
      const at = new Date(bar.at);
      const onTick = stepS === 3600 ? Math.round(at.getTime() / 36e5 - at.getTimezoneOffset() / 60) % stride === 0 : i % stride === 0;
      if (onTick && x(i) < width - 40) parts.push(h("text.tick", { x: x(i) + (slot > 30 ? slot / 2 : 0), y: m.top + inner.h + 15, "text-anchor": slot > 30 ? "middle" : "start" },
        stepS >= 86400 || stride >= 24 ? day(bar.at) : hourMinute(bar.at)));
      const w = Math.max(1, slot - gap);
      if (!bar.counted) parts.push(h("rect.uncounted", { x: x(i), y: m.top, width: w, height: inner.h, fill: "url(#uncounted)" }));
      let from = 0;
      bar.parts.forEach((n, k) => {
        if (!n) return;
        const tall = Math.max(n ? 2 : 0, y(from) - y(from + n));
        parts.push(h("rect", { class: `bar ${series[k].class} ${bar.open ? "open" : ""}`, x: x(i), y: y(from) - tall, width: w, height: tall, rx: slot > 10 ? 1.5 : 0 }));
        from += n;
      });
      if (bar.open) parts.push(h("rect.hatch", { x: x(i), y: m.top, width: w, height: inner.h, fill: "url(#hatch)" }));
    });
    if (range) parts.push(h("rect.range", { x: x(Math.min(...range)), y: m.top, width: (Math.abs(range[1] - range[0]) + 1) * slot, height: inner.h }));
    if (cursor >= 0 && cursor < data.length) parts.push(h("rect.cursor", { x: x(cursor) - gap / 2, y: m.top, width: slot, height: inner.h }));
    const svg = h("svg", { width, height: compact ? 64 : height, viewBox: `0 0 ${width} ${compact ? 64 : height}`, "aria-hidden": "true", focusable: "false" },
      h("defs", null,
        h("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, h("line", { x1: 0, y1: 0, x2: 0, y2: 5, class: "hatchline" })),
        h("pattern", { id: "uncounted", width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(-45)" }, h("line", { x1: 0, y1: 0, x2: 0, y2: 4, class: "hatchline" }))), parts);
    fill(box, svg);
    sums();
  }
  const indexAt = (event) => {
    const left = event.clientX - box.getBoundingClientRect().left - m.left;
    const i = Math.floor(left / ((width - m.left - m.right) / data.length));
    return i >= 0 && i < data.length ? i : -1;
  };
  const point = (i) => { if (i !== cursor) { cursor = i; draw(); } };
  const chosen = () => { if (range && pick) pick(data[Math.min(...range)].at, endOf(data[Math.max(...range)])); };
  box.addEventListener("pointermove", (event) => {
    const i = indexAt(event);
    if (dragging && range && i >= 0) range = [range[0], i];
    if (i !== cursor || dragging) { cursor = i; draw(); }
  });
  box.addEventListener("pointerleave", () => { if (!dragging) point(-1); });
  if (pick) {
    box.addEventListener("pointerdown", (event) => {
      const i = indexAt(event);
      if (i < 0) return;
      dragging = true; range = [i, i]; box.setPointerCapture(event.pointerId); draw();
    });
    box.addEventListener("pointerup", () => { if (dragging) { dragging = false; chosen(); range = null; draw(); } });
  }
  const stepKey = (event) => {
    const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (event.key === "Enter" && range) { event.preventDefault(); chosen(); range = null; return draw(); }
    if (event.key === "Escape" && cursor >= 0) { event.preventDefault(); range = null; return point(-1); }
    if (!by) return;
    event.preventDefault();
    const next = Math.min(data.length - 1, Math.max(0, cursor < 0 ? data.length - 1 : cursor + by));
    if (pick) range = event.shiftKey && range ? [range[0], next] : [next, next];
    cursor = next;
    draw();
    readout.setAttribute("aria-live", "polite");
  };
  const focus = h("div.chartfocus", { role: "group", tabindex: 0, "aria-label": `${name}: arrow keys read each bar${pick ? ", shift and arrow keys choose a time, Enter applies it" : ""}`,
    on: { keydown: stepKey, blur: () => { range = null; point(-1); } } });
  node.insertBefore(focus, box);
  focus.append(box);
  new ResizeObserver(([entry]) => { const w = Math.floor(entry.contentRect.width); if (w !== width) { width = w; draw(); } }).observe(focus);

  return {
    node, twin,
    /** @param {Bar[]} list */
    show(list) {
      data = list;
      const most = list.reduce((a, b) => total(b) > total(a) ? b : a, list[0] ?? { at: "", parts: [0], counted: true });
      const missing = list.filter((b) => !b.counted).length;
      fill(sentence, `${num(list.reduce((n, b) => n + total(b), 0))} ${unit}. ` + (total(most) ? `Most at ${day(most.at)} ${hourMinute(most.at)}: ${num(total(most))}. ` : "") + (missing ? `${missing} hours are not counted.` : ""));
      if (!twin.hidden) table();
      draw();
    },
    /** Shows the numbers as a table, or hides them. */
    toggle() { twin.hidden = !twin.hidden; if (!twin.hidden) table(); return !twin.hidden; },
  };
  function table() {
    fill(twin, h("table", { "aria-label": `${name}, as a table` }, h("thead", h("tr", h("th", { scope: "col" }, "From"), series.map((s) => h("th", { scope: "col", class: "n" }, s.name)))),
      h("tbody", [...data].reverse().map((b) => h("tr", h("td", `${day(b.at)}, ${hourMinute(b.at)}`), b.parts.map((n) => h("td.n", b.counted ? num(n) : "not counted")))))));
  }
}

/** A button that shows the table under a chart. @param {{toggle: () => boolean}} chart */
export function twinButton(chart) {
  const button = h("button", { class: "small quiet", "aria-pressed": "false", on: { click: () => {
    const open = chart.toggle();
    button.setAttribute("aria-pressed", String(open));
    fill(button, open ? "Hide the table" : "Show as a table");
  } } }, "Show as a table");
  return button;
}

/**
 * Bars of `inbox stats --by hour`: what is not failing, failing, and dead. An hour that the document leaves out had no event.
 * @param {any} doc @param {number} hours how many hours to show at least @returns {Bar[]}
 */
export function ofHours(doc, hours = 24) {
  const now = new Date(doc.as_of).getTime(), end = Math.min(now, new Date(doc.until ?? doc.as_of).getTime() - 1);
  const known = new Map(doc.items.map((i) => [new Date(i.hour).getTime(), i]));
  const last = Math.floor(end / 36e5) * 36e5;
  const first = Math.min(last - (doc.since ? 0 : hours * 36e5), ...known.keys());
  const bars = [];
  for (let at = first; at <= last; at += 36e5) {
    const i = known.get(at);
    const failed = i?.failed?.count ?? 0, dead = i?.dead_letters?.count ?? 0;
    bars.push({ at: new Date(at).toISOString(), parts: [Math.max(0, (i?.received.count ?? 0) - failed - dead), failed, dead], counted: i?.counted !== false, open: at + 36e5 > now });
  }
  return bars;
}
/** @type {Series[]} */
export const OUTCOMES = [{ name: "Not failing", class: "good" }, { name: "Failing", class: "warn" }, { name: "Dead letters", class: "bad" }];
