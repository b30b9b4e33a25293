// Flow: where does it pile up?
import { about, empty, fill, h, lead, num, panel, section, sized, sourceLink, state, table } from "../kit.js";

/** @param {any[]} edges source, action, destination: three columns with a line for each action */
function drawing(edges, width) {
  const ROW = 34, wide = width > 620, unique = (of) => [...new Set(edges.map(of))];
  const x = (wide ? [0, .24, .44, .6, .7] : [0, .32, .4, .62, .68]).map((part) => part * width);
  const y = (i) => (i + 1) * ROW;
  const middle = (of, name) => {
    const mine = edges.map((e, i) => of(e) === name ? y(i) : 0).filter(Boolean);
    return mine.reduce((a, b) => a + b, 0) / mine.length;
  };
  // Destinations that several actions share stand at the middle of their lines, but never on one another.
  const ends = new Map(), to = (e) => e.destination, from = (e) => e.source;
  let last = -99;
  for (const [at, name] of unique(to).filter((d) => d !== "…").map((d) => [middle(to, d), d]).sort((a, b) => a[0] -
    b[0])) {
    ends.set(name, last = Math.max(at, last + 28));
  }
  const text = (what, at, y, px) => h("text.node", { x: at, y: y + 4 },
    what.length * 7.4 > px ? `${what.slice(0, Math.max(4, Math.floor(px / 7.4) - 1))}…` : what, h("title", what));
  const parts = [];
  const ribbon = (kind, w, x1, y1, x2, y2) => {
    const c = (x1 + x2) / 2, a = w / 2;
    const there = `M${x1} ${y1 - a}C${c} ${y1 - a} ${c} ${y2 - a} ${x2} ${y2 - a}`;
    parts.push(h(`path.ribbon${kind}`, { d: `${there}v${w}C${c} ${y2 + a} ${c} ${y1 + a} ${x1} ${y1 + a}z` }));
  };
  for (const name of unique(from)) {
    const at = middle(from, name);
    parts.push(text(name, 0, at, x[1] - (wide ? 74 : 8)));
    if (wide) parts.push(h("text.tick.end", { x: x[1] - 10, y: at + 4 },
      `${num(edges.find((e) => e.source === name).n)}/day`));
  }
  edges.forEach((e, i) => {
    const closed = !e.breaker || e.breaker === "closed", w = e.n ? 1.5 + Math.log10(e.n) * 1.4 : 1,
      end = ends.get(e.destination);
    ribbon("", w, x[1], middle(from, e.source), x[2] - 6, y(i));
    parts.push(text(e.action, x[2], y(i), x[3] - x[2] - 8));
    if (end === undefined) return;
    if (closed) return ribbon("", w, x[3], y(i), x[4] - 8, end);
    const cx = (x[3] + x[4]) / 2, cy = (y(i) + end) / 2;
    ribbon(".broken", w, x[3], y(i), cx - 7, cy);
    parts.push(h("path.cross", { d: `M${cx - 5} ${cy - 5}l10 10m0-10l-10 10` }));
  });
  for (const [name, at] of ends) {
    const open = edges.filter((e) => e.destination === name).reduce((n, e) => n + e.open, 0);
    parts.push(text(name, x[4], at, width - x[4] - (wide ? 96 : 0)));
    if (wide) parts.push(h(`text.tick.end.${open ? "warn" : ""}`, { x: width, y: at + 4 }, open ? `${num(open)} open`
      : "nothing open"));
  }
  [[0, "Source"], [2, "Action"], [4, "Destination"]].forEach(([i, name]) => parts.push(h("text.tick",
    { x: x[i], y: 12 }, name)));
  return h("svg.flow", { width, height: Math.max(y(edges.length), last + 22) }, parts);
}

export function open(page) {
  let edges = /** @type {any[]} */ ([]);
  const box = h("div"), again = sized(box, (width) => drawing(edges, width));
  const rows = table({ label: "Flow, as a table", key: (e) => `${e.source} ${e.action}`, columns: [
    ["Source", "w-source", (e) => sourceLink(e.source)], ["24 hours", "w-n.n", (e) => num(e.n)],
      ["Action", "", (e) => e.action],
    ["Destination", "w-next.p1", (e) => e.destination], ["Breaker", "w-state", (e) => e.breaker ? state(e.breaker)
      : "–"],
    ["Open", "w-n.n", (e) => e.open ? h("b.warn", num(e.open)) : "0"]] });
  const draw = (list) => { edges = list; again(); rows.show(list); };
  const main = panel(page, { wait: [6, "tall"], read: () => ["sources.list"], draw: async (doc, body) => {
    if (!doc.items.length) return fill(body, empty("There are no sources.",
      "The drawing shows sources, their actions, and where the actions send."));
    if (!box.isConnected) {
      fill(body, lead("Thickness is the logarithm of the source's events in 24 hours. ",
        "The ledger does not count each action."), box, section("As a table", rows.node));
    }
    const plain = doc.items.flatMap((s) => (s.actions.length ? s.actions : ["keep"]).map((action) =>
      ({ source: s.source, n: s.last_24h.count, open: s.open.count, action, destination: action === "keep"
        ? "inbox" : "…", breaker: "" })));
    if (!edges.length) draw(plain);
    const known = new Map();
    await Promise.all(doc.items.map(async (s) => {
      const answer = await page.read(...about("sources.show", s.source)).catch(() => null);
      if (!answer) return;
      page.note(`show ${s.source}`, answer);
      for (const d of answer.doc.destinations) known.set(`${s.source} ${d.action}`, d);
    }));
    draw(plain.map((e) => {
      const d = known.get(`${e.source} ${e.action}`);
      return { ...e, destination: d?.destination ?? (e.destination === "…" ? "built in" : e.destination),
        breaker: d?.breaker ?? "" };
    }));
  } });
  fill(page.root, main.node);
  main.load();
  page.live(30, main.load);
}
