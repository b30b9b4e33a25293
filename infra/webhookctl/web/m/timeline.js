// @ts-check
// The history of an event as a drawing: what happened when, how long between, and what each destination answered.
import { h } from "./h.js";
import { clock, hourMinute, look, span } from "./words.js";

/** @typedef {{at: number, what: string, detail: string, shape: import("./words.js").Shape, tone: string, next?: boolean}} Mark */

/** @param {boolean} last @returns {[import("./words.js").Shape, string]} */
function shapeOf(entry, last, doc) {
  if (entry.what.startsWith("attempt")) {
    const said = /^(done|failed|dead_letter)\b/.exec(entry.detail)?.[1];
    return look(said ?? (last ? doc.status : "failed"));
  }
  if (entry.what === "replayed" || entry.what === "released") return ["loop", "info"];
  if (entry.what === "quarantined") return ["diamond", "hold"];
  if (entry.what === "discarded" || entry.what === "erased") return ["diamond", "dim"];
  return ["circle", "info"];
}

/** @returns {Mark[]} */
export function marks(doc) {
  const all = doc.timeline.map((entry, i) => {
    const [shape, tone] = shapeOf(entry, i === doc.timeline.length - 1, doc);
    return { at: new Date(entry.at).getTime(), what: entry.what, detail: entry.detail, shape, tone };
  });
  if (doc.lease && doc.claimed_until) all.push({ at: new Date(doc.claimed_until).getTime(), what: "lease ends", detail: doc.lease.owner, shape: "ring", tone: "dim", next: !doc.lease.expired });
  if (doc.due) all.push({ at: new Date(doc.due).getTime(), what: "next attempt", detail: doc.next_action.text, shape: "ring", tone: "dim", next: true });
  return all.sort((a, b) => a.at - b.at);
}

/** Positions on which a millisecond and a day both fit: a gap is as long as the logarithm of its time. @param {number[]} times */
function scale(times) {
  const sorted = [...new Set(times)].sort((a, b) => a - b);
  /** @type {Map<number, number>} */
  const at = new Map([[sorted[0], 0]]);
  let sum = 0;
  for (let i = 1; i < sorted.length; i++) at.set(sorted[i], sum += Math.log2(1 + (sorted[i] - sorted[i - 1]) / 10));
  return { at, sum: sum || 1 };
}

/** @param {Mark} m @param {number} x @param {number} y */
function shape(m, x, y) {
  const node = { square: h("rect", { x: x - 5.5, y: y - 5.5, width: 11, height: 11, rx: 1.5 }), triangle: h("path", { d: `M${x} ${y - 7}l6.6 11.8h-13.2z` }),
    diamond: h("path", { d: `M${x} ${y - 7}l7 7-7 7-7-7z`, class: "line" }), ring: h("circle", { cx: x, cy: y, r: 5, class: "line" }), circle: h("circle", { cx: x, cy: y, r: 5.5 }),
    half: h("circle", { cx: x, cy: y, r: 5, class: "line" }), key: h("circle", { cx: x, cy: y, r: 3 }),
    loop: h("path", { d: `M${x + 4.6} ${y - 3.4}a5.6 5.6 0 1 0 .9 4.6m-.2-8.4v4.2h-4.2`, class: "line" }) }[m.shape];
  return h("g", { class: `m ${m.tone}` }, h("circle", { cx: x, cy: y, r: 9, class: "halo" }), node, h("title", `${m.what}: ${m.detail}`));
}

/**
 * The lanes: the event, and one for each side effect. @param {number} width @param {number} now
 */
function lanes(doc, width, now) {
  const list = marks(doc);
  const answers = doc.answers ?? [];
  const last = Math.max(0, ...answers.map((a) => a.run));
  const effects = doc.side_effects ?? [];
  const names = [...new Set([...effects.map((e) => e.name), ...answers.map((a) => a.effect)])];
  const final = doc.status === "done" || doc.status === "dead_letter";
  const checked = effects.filter((e) => e.checked_at).map((e) => new Date(e.checked_at).getTime());
  const times = [...list.map((m) => m.at), ...answers.map((a) => new Date(a.at).getTime()), ...checked, ...(final ? [] : [now])];
  const { at, sum } = scale(times);
  const left = width > 560 ? 124 : 84, right = 44, top = 50, step = 44;
  const x = (t) => left + (at.get(t) ?? 0) / sum * (width - left - right);
  // An answer stands below the attempt that got it.
  const tries = new Map(list.map((m) => [m.what, m.at]));
  const xOf = (a) => x((a.run === last && tries.get(`attempt ${a.attempt}`)) || new Date(a.at).getTime());
  const parts = [];
  const y = (lane) => top + lane * step;
  const height = y(names.length) + 20;
  const name = (text, lane, more) => {
    const max = left < 100 ? 10 : 16;
    return [h("text", { x: 0, y: y(lane) - 1, class: "lane" }, text.length > max ? `${text.slice(0, max - 1)}…` : text, h("title", text)), h("text", { x: 0, y: y(lane) + 13, class: "tick" }, more)];
  };
  const past = list.filter((m) => !m.next);
  const firstX = x(past[0]?.at ?? now), lastX = x(past.at(-1)?.at ?? now), nowX = x(now);
  parts.push(name("Event", 0, doc.status.replace("_", " ")), h("line.rail", { x1: firstX, x2: final ? lastX : Math.max(lastX, nowX), y1: y(0), y2: y(0) }));
  const next = list.filter((m) => m.next).at(-1);
  if (next && !final) parts.push(h("line.rail.dashed", { x1: nowX, x2: x(next.at), y1: y(0), y2: y(0) }));
  if (!final) parts.push(h("line.now", { x1: nowX, x2: nowX, y1: 12, y2: height - 8 }), h("text", { x: nowX, y: height + 4, class: "tick", "text-anchor": "middle" }, "now"));
  let labelEnd = -99;
  list.forEach((m, i) => {
    const mx = x(m.at), before = i ? x(list[i - 1].at) : mx;
    const gap = i ? span((m.at - list[i - 1].at) / 1000) : "";
    if (i && mx - before > 18 + gap.length * 7) parts.push(h("g.gap", h("rect", { x: (mx + before) / 2 - gap.length * 3.6 - 4, y: y(0) - 9, width: gap.length * 7.2 + 8, height: 18 }), h("text", { x: (mx + before) / 2, y: y(0) + 4, "text-anchor": "middle" }, gap)));
    const short = m.what.replace("attempt ", "try ").replace("next attempt", "next try");
    const half = short.length * 3.6;
    const from = Math.min(mx - half, width - half * 2);
    if (from > labelEnd + 8) {
      parts.push(h("text", { x: from, y: y(0) - 28, class: "what" }, short), h("text", { x: from, y: y(0) - 15, class: "tick" }, width > 760 ? clock(new Date(m.at)) : hourMinute(new Date(m.at))));
      labelEnd = from + Math.max(half * 2, width > 760 ? 52 : 34);
    }
    parts.push(shape(m, mx, y(0)));
  });
  names.forEach((effect, k) => {
    const lane = k + 1;
    const known = effects.find((e) => e.name === effect);
    const mine = answers.filter((a) => a.effect === effect);
    const points = [...mine.map(xOf), ...(known?.checked_at ? [x(new Date(known.checked_at).getTime())] : [])];
    parts.push(name(effect, lane, known ? known.state.replace("_", " ") : ""), h("line.rail.thin", { x1: left, x2: width - right, y1: y(lane), y2: y(lane) }));
    if (points.length > 1) parts.push(h("line.rail", { x1: Math.min(...points), x2: Math.max(...points), y1: y(lane), y2: y(lane) }));
    let end = -99;
    for (const a of mine) {
      const ax = xOf(a);
      const text = a.status === null ? "none" : String(a.status);
      if (ax - 15 < end) { parts.push(h("circle", { cx: ax, cy: y(lane), r: 3, class: "pip warn" })); continue; }
      end = ax + 17;
      parts.push(h("g", { class: `pill ${a.status === null ? "bad" : "warn"}` }, h("rect", { x: ax - (text.length > 3 ? 19 : 15), y: y(lane) - 9, width: text.length > 3 ? 38 : 30, height: 18, rx: 9 }), h("text", { x: ax, y: y(lane) + 4, "text-anchor": "middle" }, text),
        h("title", `attempt ${a.attempt}: ${a.status === null ? "no answer" : `answered ${a.status}`} after ${span(a.took_ms / 1000)}`)));
    }
    if (known?.checked_at && (known.state === "committed" || !mine.length)) {
      const [sh, tone] = look(known.state);
      parts.push(shape({ at: 0, what: effect, detail: known.state, shape: sh, tone }, x(new Date(known.checked_at).getTime()), y(lane)));
    }
  });
  return h("svg", { width, height: height + 8, viewBox: `0 0 ${width} ${height + 8}`, class: "timeline", "aria-hidden": "true", focusable: "false" }, parts);
}

/** @param {number} now */
export function timeline(doc, now) {
  const box = h("div.drawn");
  let width = 0;
  const draw = () => { if (width) box.replaceChildren(lanes(doc, width, now)); };
  new ResizeObserver(([entry]) => { const w = Math.floor(entry.contentRect.width); if (w !== width) { width = w; draw(); } }).observe(box);
  const list = marks(doc);
  const rows = h("ol.history", list.map((m, i) => h("li",
    h("time", { datetime: new Date(m.at).toISOString() }, clock(new Date(m.at), true)), h("span.delta.dim", i ? `+${span((m.at - list[i - 1].at) / 1000)}` : ""),
    h("span.railmark", h("svg", { class: `mark ${m.tone}`, viewBox: "-8 -8 16 16", "aria-hidden": "true" }, shape(m, 0, 0))), h("span.what", m.what), h("span.detail", m.detail))));
  return {
    node: h("div", box, rows), rows,
    /** @param {number} at */
    redraw(next, at) { doc = next; now = at; draw(); },
  };
}
