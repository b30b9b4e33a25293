// The history of an event as a drawing: what happened when, how long between, and what each destination answered.
import { clock, h, hourMinute, look, shape, sized, span, words } from "./kit.js";

/** @typedef {{at: number, what: string, detail: string, name: string, tone: string, next?: boolean}} Mark */

const OTHERS = {
  replayed: ["loop", "info"], released: ["loop", "info"], quarantined: ["diamond", "hold"],
  discarded: ["diamond", "dim"], erased: ["diamond", "dim"],
};

/** @returns {Mark[]} */
function marks(doc) {
  const all = doc.timeline.map(({ at, what, detail }, i) => {
    const last = i === doc.timeline.length - 1, said = /^(done|failed|dead_letter|held)\b/.exec(detail)?.[1];
    const [name, tone] = !what.startsWith("attempt") ? OTHERS[what] ?? ["circle", "info"]
      : look(said ?? (last ? doc.status : "failed"));
    return { at: Date.parse(at), what, detail, name, tone };
  });
  const later = (at, what, detail, next) => all.push({ at: Date.parse(at), what, detail, name: "ring", tone: "dim",
    next });
  if (doc.lease && doc.claimed_until) later(doc.claimed_until, "lease ends", doc.lease.owner, !doc.lease.expired);
  if (doc.hold) later(doc.hold.expires_at, "hold expires", doc.hold.rule, true);
  if (doc.due) later(doc.due, "next attempt", doc.next_action.text, true);
  return all.sort((a, b) => a.at - b.at);
}

/** Positions on which a millisecond and a day both fit: a gap is as long as the logarithm of its time. */
function scale(times) {
  const sorted = [...new Set(times)].sort((a, b) => a - b), at = new Map();
  let sum = 0;
  sorted.forEach((t, i) => at.set(t, i ? sum += Math.log2(1 + (t - sorted[i - 1]) / 10) : 0));
  return (t) => (at.get(t) ?? 0) / (sum || 1);
}

/** A mark of 16 px with its middle at a point. */
const point = (m, x, y) => h(`svg.m.${m.tone}`, { x: x - 8, y: y - 8, width: 16, height: 16, viewBox: "-2 -2 16 16" },
  h("circle.halo", { cx: 6, cy: 6, r: 7 }), shape(m.name), h("title", `${m.what}: ${m.detail}`));

/** The lanes: the event, and one for each side effect. */
function lanes(doc, width, now) {
  const list = marks(doc), answers = doc.answers ?? [], effects = doc.side_effects ?? [];
  const names = [...new Set([...effects, ...answers].map((e) => e.name ?? e.effect))];
  const final = ["done", "dead_letter"].includes(doc.status);
  const times = [...list, ...(final ? [] : [{ at: now }])].map((m) => m.at);
  const part = scale([...times, ...answers.map((a) => Date.parse(a.at)),
    ...effects.map((e) => Date.parse(e.checked_at)).filter(Boolean)]);
  const left = width > 560 ? 124 : 84, right = 44;
  const x = (t) => left + part(t) * (width - left - right), y = (lane) => 50 + lane * 44;
  const bottom = y(names.length) + 20;
  // An answer stands below the attempt that got it.
  const last = Math.max(0, ...answers.map((a) => a.run));
  const tries = new Map(list.map((m) => [m.what, m.at]));
  const xOf = (a) => x((a.run === last && tries.get(`attempt ${a.attempt}`)) || Date.parse(a.at));
  const parts = [];
  const rail = (kind, x1, x2, lane) => parts.push(h(`line.rail${kind}`, { x1, x2, y1: y(lane), y2: y(lane) }));
  const name = (text, lane, more) => {
    const max = left < 100 ? 10 : 16;
    parts.push(h("text.lane", { x: 0, y: y(lane) - 1 }, text.length > max ? `${text.slice(0, max - 1)}…` : text,
      h("title", text)),
      h("text.tick", { x: 0, y: y(lane) + 13 }, words(more)));
  };
  const box = (kind, at, lane, text, w, title) => parts.push(h(`g.${kind}`,
    h("rect", { x: at - w / 2, y: y(lane) - 9, width: w, height: 18, rx: 9 }), h("text.mid", { x: at, y: y(lane) + 4 },
      text, h("title", title))));

  const past = list.filter((m) => !m.next), next = list.filter((m) => m.next).at(-1);
  const firstX = x(past[0]?.at ?? now), lastX = x(past.at(-1)?.at ?? now), nowX = x(now);
  name("Event", 0, doc.status);
  rail("", firstX, final ? lastX : Math.max(lastX, nowX), 0);
  if (!final) {
    if (next) rail(".dashed", nowX, x(next.at), 0);
    parts.push(h("line.now", { x1: nowX, x2: nowX, y1: 12, y2: bottom - 8 }), h("text.tick.mid",
      { x: nowX, y: bottom + 4 }, "now"));
  }
  let free = -99;
  list.forEach((m, i) => {
    const mx = x(m.at), before = i ? x(list[i - 1].at) : mx, gap = i ? span((m.at - list[i - 1].at) / 1000) : "";
    if (i && mx - before > 18 + gap.length * 7) box("gap", (mx + before) / 2, 0, gap, gap.length * 7.2 + 8, "");
    const short = m.what.replace("next attempt", "next try").replace("attempt", "try");
    const wide = width > 760, size = Math.max(short.length * 7.2, wide ? 52 : 34);
    const from = Math.min(mx - short.length * 3.6, width - size);
    if (from > free + 8) {
      parts.push(h("text", { x: from, y: y(0) - 28 }, short),
        h("text.tick", { x: from, y: y(0) - 15 }, wide ? clock(m.at) : hourMinute(m.at)));
      free = from + size;
    }
    parts.push(point(m, mx, y(0)));
  });
  names.forEach((effect, k) => {
    const lane = k + 1, known = effects.find((e) => e.name === effect),
      mine = answers.filter((a) => a.effect === effect);
    const checked = known?.checked_at ? [x(Date.parse(known.checked_at))] : [], points = [...mine.map(xOf), ...checked];
    name(effect, lane, known?.state ?? "");
    rail(".thin", left, width - right, lane);
    if (points.length > 1) rail("", Math.min(...points), Math.max(...points), lane);
    let end = -99;
    for (const a of mine) {
      const ax = xOf(a), none = a.status === null, text = none ? "none" : String(a.status), w = none ? 38 : 30;
      if (ax - 15 < end) { parts.push(h("circle.pip", { cx: ax, cy: y(lane), r: 3 })); continue; }
      end = ax + 17;
      box(`pill${none ? ".bad" : ""}`, ax, lane, text, w,
        `attempt ${a.attempt}: ${none ? "no answer" : `answered ${text}`} after ${span(a.took_ms / 1000)}`);
    }
    if (checked.length && (known.state === "committed" || !mine.length)) {
      const [shape, tone] = look(known.state);
      parts.push(point({ name: shape, tone, what: effect, detail: words(known.state) }, checked[0], y(lane)));
    }
  });
  return h("svg.timeline", { width, height: bottom + 8 }, parts);
}

export function timeline(doc, now) {
  const box = h("div.drawn"), list = marks(doc);
  sized(box, (width) => lanes(doc, width, now));
  return h("div", box, h("ol.history", list.map((m, i) => h("li", h("time", { datetime: new Date(m.at).toISOString() },
    clock(m.at, true)),
    h("span.delta.dim", i ? `+${span((m.at - list[i - 1].at) / 1000)}` : ""),
    h("span.railmark", h("svg.mark", { viewBox: "-2 -2 16 16" }, point(m, 6, 6))),
    h("b", m.what), h("span.detail", m.detail)))));
}
