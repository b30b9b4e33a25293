// Charts of hours: bars with axes, a readout, a sentence for screen readers, and a table with the same numbers.
import { button, day, fill, grid, h, hourMinute, num, plural, sized } from "./kit.js";

/** @typedef {{at: number, parts: number[], counted?: boolean, open?: boolean}} Bar */

const HOUR = 36e5, LEFT = 40, RIGHT = 4;
const total = (bar) => bar.parts.reduce((a, b) => a + b, 0);

/** A round number not below `n` for the top of an axis. */
function top(n) {
  if (n <= 4) return Math.max(1, n);
  const ten = 10 ** Math.floor(Math.log10(n));
  return ten * ([1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * ten >= n) ?? 10);
}
const axis = (n) => n >= 1e6 ? `${num(n / 1e6)}M` : n >= 1e3 ? `${num(n / 1e3)}k` : num(Math.round(n * 10) / 10);

/**
 * `series` are names and classes; `text` prints a number; `limit` draws a line; `pick(from, until)` chooses a time.
 * @param {{name: string, series: [string, string][], unit: string, step?: number, height?: number, compact?: boolean,
 *   text?: (n: any) => string, limit?: number, pick?: (from: string, until: string) => void}} how
 */
export function bars({ name, series, unit, step = HOUR, height = 168, compact, text = num, limit = 0, pick }) {
  const readout = h("p.readout"), sentence = h("span.vh"), box = h(`div.chart${pick ? ".picks" : ""}`);
  const twin = h("div.twin", { hidden: true, tabindex: 0, role: "region", "aria-label": `${name}, as a table` });
  const short = step < HOUR && text !== num ? text : axis;
  /** @type {Bar[]} */
  let data = [];
  let cursor = -1, range = null, dragging = false, width = 0;
  const tall = compact ? 64 : height, head = compact ? 6 : 10, inner = tall - head - 20;
  const iso = (at) => new Date(at).toISOString();
  const isDay = step >= 864e5;
  const label = (bar) => `${day(bar.at)}${isDay ? "" : `, ${hourMinute(bar.at)}`}`;
  const sum = (k) => data.reduce((n, bar) => limit ? Math.max(n, bar.parts[k]) : n + bar.parts[k], 0);

  function sums() {
    const bar = data[cursor];
    const title = !bar ? name : isDay ? label(bar) : `${label(bar)}–${hourMinute(bar.at + step)}`;
    fill(readout, h("b", title), series.map(([what, tone], k) =>
      h(`span.key.${tone}`, `${what} `, h("b", text(bar ? bar.parts[k] : sum(k))))),
    h("span", bar?.counted === false ? "not counted yet" : (bar ?? data.at(-1))?.open && "Striped: so far"));
  }

  function draw(now) {
    width = now;
    if (!data.length) return null;
    const slot = (width - LEFT - RIGHT) / data.length, gap = slot > 14 ? 3 : slot > 5 ? 1 : 0;
    const high = top(Math.max(1, limit * 1.2, ...data.map(total)));
    const x = (i) => LEFT + i * slot, y = (n) => head + inner * (1 - n / high);
    const block = (what, i, more) => h(what, { x: x(i), y: head, width: slot, height: inner, ...more });
    const line = (kind, n) => h(`line.${kind}`, { x1: LEFT, x2: width - RIGHT, y1: Math.round(y(n)) + .5,
      y2: Math.round(y(n)) + .5 });
    const parts = [];
    for (const n of compact ? [0, high] : high <= 4 ? [...Array(Math.floor(high) + 1).keys()] : [0, high / 2, high]) {
      parts.push(line(n ? "grid" : "base", n), h("text.tick.end", { x: LEFT - 8, y: y(n) + 4 }, short(n)));
    }
    const least = Math.max(1, Math.ceil(64 / slot));
    const stride = (isDay ? [1, 7, 14] : step < HOUR ? [] : [1, 3, 6, 12, 24, 48, 96, 168]).find((s) => s >= least)
      ?? least;
    data.forEach((bar, i) => {
      const zone = new Date(bar.at).getTimezoneOffset() / 60;
      const onTick = step === HOUR ? Math.round(bar.at / HOUR - zone) % stride === 0 : i % stride === 0;
      if (onTick && x(i) < width - 40) {
        parts.push(h("text.tick", { x: x(i), y: head + inner + 15 }, isDay || stride >= 24 ? day(bar.at)
          : hourMinute(bar.at)));
      }
      if (bar.counted === false) parts.push(block("rect", i, { fill: "url(#uncounted)" }));
      let from = 0;
      bar.parts.forEach((n, k) => {
        if (!n) return;
        const size = Math.max(2, y(from) - y(from + n));
        parts.push(h(`rect.bar.${series[k][1]}`, { x: x(i), y: y(from) - size, width: Math.max(1, slot - gap),
          height: size }));
        from += n;
      });
      if (bar.open) parts.push(block("rect", i, { fill: "url(#hatch)" }));
    });
    if (limit) parts.push(line("limit", limit), h("text.tick.warn", { x: LEFT + 4, y: y(limit) - 4 },
      `limit ${text(limit)}`));
    if (range) parts.push(block("rect.range", Math.min(...range),
      { width: (Math.abs(range[1] - range[0]) + 1) * slot }));
    if (data[cursor]) parts.push(block("rect.cursor", cursor));
    const pattern = (id, n, angle) => h("pattern", { id, width: n, height: n, patternUnits: "userSpaceOnUse",
      patternTransform: `rotate(${angle})` }, h("line.hatch", { x1: 0, y1: 0, x2: 0, y2: n }));
    sums();
    return h("svg", { width, height: tall },
      h("defs", pattern("hatch", 5, 45), pattern("uncounted", 4, -45)), parts);
  }

  const focus = h("div.chartfocus", { role: "group", tabindex: 0, "aria-label": `${name}: arrow keys read each bar` +
    (pick ? ", shift and arrow keys choose a time, Enter applies it" : "") }, box);
  const again = sized(box, draw);
  const to = (i) => { if (i !== cursor || dragging) { cursor = i; again(); } };
  const end = () => { dragging = false; range = null; again(); };
  const chosen = () => pick?.(iso(data[Math.min(...range)].at), iso(data[Math.max(...range)].at + step));
  const indexAt = (event) => {
    const i = Math.floor((event.clientX - box.getBoundingClientRect().left - LEFT) / (width - LEFT -
      RIGHT) * data.length);
    return i < data.length ? Math.max(-1, i) : -1;
  };
  box.addEventListener("pointermove", (event) => {
    const i = indexAt(event);
    if (dragging && i >= 0) range = [range[0], i];
    to(i);
  });
  box.addEventListener("pointerleave", () => { if (!dragging) to(-1); });
  if (pick) {
    box.addEventListener("pointerdown", (event) => {
      const i = indexAt(event);
      if (i < 0) return;
      dragging = true;
      range = [i, i];
      box.setPointerCapture(event.pointerId);
      again();
    });
    box.addEventListener("pointerup", () => { if (dragging) { chosen(); end(); } });
  }
  focus.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Enter" && range) { chosen(); end(); }
    else if (event.key === "Escape" && cursor >= 0) { cursor = -1; end(); }
    else if (by) {
      const i = Math.min(data.length - 1, Math.max(0, cursor < 0 ? data.length - 1 : cursor + by));
      if (pick) range = [event.shiftKey && range ? range[0] : i, i];
      cursor = i;
      again();
      readout.setAttribute("aria-live", "polite");
    } else return;
    event.preventDefault();
  });
  focus.addEventListener("blur", () => { cursor = -1; end(); });

  const rows = () => fill(twin, grid(`${name}, as a table`, [["From"], ...series.map(([what]) => [what, "n"])],
    [...data].reverse().map((bar) => [label(bar), ...bar.parts.map((n) => bar.counted === false ? "not counted"
      : text(n))])));
  const twinButton = button("Show as a table", () => {
    twin.hidden = !twin.hidden;
    if (!twin.hidden) rows();
    twinButton.setAttribute("aria-pressed", String(!twin.hidden));
    fill(twinButton, twin.hidden ? "Show as a table" : "Hide the table");
  }, ".small.quiet", { "aria-pressed": "false" });
  return {
    node: h("div", readout, focus, twin, sentence), twinButton,
    /** @param {Bar[]} list */
    show(list) {
      data = list;
      const most = list.reduce((a, b) => total(b) > total(a) ? b : a, list[0]);
      const missing = list.filter((bar) => bar.counted === false).length;
      fill(sentence, limit ? "" : `${plural(list.reduce((n, bar) => n + total(bar), 0), unit)}. `,
        most && total(most) ? `Most at ${label(most)}: ${text(total(most))}. ` : "",
        missing ? `${plural(missing, "hour is", "hours are")} not counted.` : "");
      if (!twin.hidden) rows();
      again();
    },
  };
}

/** @type {[string, string][]} */
export const OUTCOMES = [["Not failing", "good"], ["Failing", "warn"], ["Dead letters", "bad"]];
/**
 * Bars of `inbox stats --by hour`. An hour that the document leaves out had no event.
 * @param {any} doc @param {number} hours how many hours to show at least @returns {Bar[]}
 */
function ofHours(doc, hours = 24) {
  const now = Date.parse(doc.as_of), until = Math.min(now, Date.parse(doc.until ?? doc.as_of) - 1);
  const known = new Map(doc.items.map((i) => [Date.parse(i.hour), i]));
  const last = Math.floor(until / HOUR) * HOUR;
  const made = [];
  for (let at = Math.min(last - (doc.since ? 0 : hours * HOUR), ...known.keys()); at <= last; at += HOUR) {
    const i = known.get(at), failed = i?.failed.count ?? 0, dead = i?.dead_letters.count ?? 0;
    const parts = [Math.max(0, (i?.received.count ?? 0) - failed - dead), failed, dead];
    made.push({ at, parts, counted: i?.counted !== false, open: at + HOUR > now });
  }
  return made;
}

/** A panel with the events by hour; `flags()` select them. @param {any} page @param {any} panel */
export function hourly(page, panel, { flags, hours = () => 24, actions = null, ...how }) {
  const chart = bars({ name: "Events by hour", series: OUTCOMES, unit: "event", ...how });
  return panel(page, { slot: "hours", title: how.compact ? null : how.title, kind: how.compact ? ".strip" : "",
    actions: [chart.twinButton, actions], wait: [1, how.compact ? "strip" : "chart"], settled: how.settled,
    read: () => ["inbox.stats", [["by", "hour"], ...flags()]],
    draw: (doc, body) => {
      if (!chart.node.isConnected) fill(body, chart.node);
      chart.show(ofHours(doc, hours()));
    } });
}

/** A line of 24 hours, without axes: the number beside it is that of the last hour. @param {Bar[]} list */
export function spark(list) {
  const points = list.slice(-25).map(total), high = Math.max(1, ...points);
  const path = points.map((n, i) => `${i ? "L" : "M"}${i * 3 + 1} ${19 - n / high * 17}`).join("");
  return h("svg.spark", { viewBox: "0 0 74 20", width: 74, height: 20 }, h("path", { d: path }));
}

/** The lines of sources, which are read one after another, and the events of the last full hour. */
export function sparks(page) {
  const known = new Map();
  return {
    cell: (name) => known.has(name) ? h("span.row", spark(known.get(name)), num(total(known.get(name).at(-2)))) : "",
    /** At most 12: each source is a read. @param {string[]} names @param {() => any} then */
    async load(names, then) {
      for (const name of names.slice(0, 12)) {
        if (document.visibilityState !== "visible") return;
        try {
          const answer = await page.read("inbox.stats", [["by", "hour"], ["source", name]]);
          page.note(`hours of ${name}`, answer);
          known.set(name, ofHours(answer.doc));
          then();
        } catch { return; }
      }
    },
  };
}
