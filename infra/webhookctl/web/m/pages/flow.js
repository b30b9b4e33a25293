// @ts-check
// Flow: where does it pile up?
import { about } from "../api.js";
import { fill, h } from "../h.js";
import { empty, panel, skeleton } from "../panel.js";
import { to } from "../route.js";
import { table } from "../table.js";
import { num, state } from "../words.js";

/** @typedef {{source: string, n: number, open: number, action: string, destination: string, breaker: string}} Edge */

/** @param {Edge[]} edges @param {number} width three columns with a line for each action */
function drawing(edges, width) {
  const row = 34, top = 34;
  const wide = width > 620;
  const x = wide ? [0, width * .24, width * .44, width * .6, width * .7] : [0, width * .32, width * .4, width * .62, width * .68];
  const dest = [...new Set(edges.map((e) => e.destination))].filter((d) => d !== "…"), sources = [...new Set(edges.map((e) => e.source))];
  const yOf = (list, name) => { const mine = edges.map((e, i) => (list === dest ? e.destination : e.source) === name ? top + i * row : -1).filter((n) => n >= 0); return mine.reduce((a, b) => a + b, 0) / mine.length; };
  // Destinations that several actions share stand at the middle of their lines, but never on one another.
  let last = -99;
  const ys = new Map(dest.map((d) => /** @type {[string, number]} */ ([d, yOf(dest, d)])).sort((a, b) => a[1] - b[1]).map(([d, y]) => { const at = Math.max(y, last + 28); last = at; return /** @type {[string, number]} */ ([d, at]); }));
  const cut = (text, px) => text.length * 7.4 > px ? `${text.slice(0, Math.max(4, Math.floor(px / 7.4) - 1))}…` : text;
  const thick = (n) => n ? 1.5 + Math.log10(n) * 1.4 : 1;
  const parts = [];
  for (const name of sources) {
    const e = /** @type {Edge} */ (edges.find((f) => f.source === name)), y = yOf(sources, name);
    parts.push(h("text.node", { x: x[0], y: y + 4 }, cut(name, x[1] - (wide ? 74 : 8)), h("title", name)));
    if (wide) parts.push(h("text.tick.end", { x: x[1] - 10, y: y + 4 }, `${num(e.n)}/day`));
  }
  edges.forEach((e, i) => {
    const y = top + i * row, from = yOf(sources, e.source), end = ys.get(e.destination) ?? y, closed = e.breaker === "closed" || !e.breaker;
    const w = thick(e.n), mid = (x[3] + x[4]) / 2;
    const ribbon = (x1, y1, x2, y2) => { const c = (x1 + x2) / 2; return `M${x1} ${y1 - w / 2}C${c} ${y1 - w / 2} ${c} ${y2 - w / 2} ${x2} ${y2 - w / 2}V${y2 + w / 2}C${c} ${y2 + w / 2} ${c} ${y1 + w / 2} ${x1} ${y1 + w / 2}z`; };
    parts.push(h("path.ribbon", { d: ribbon(x[1], from, x[2] - 6, y) }), h("text.node", { x: x[2], y: y + 4 }, cut(e.action, x[3] - x[2] - 8), h("title", e.action)));
    if (!ys.has(e.destination)) return;
    if (closed) parts.push(h("path.ribbon", { d: ribbon(x[3], y, x[4] - 8, end) }));
    else parts.push(h("path.ribbon.broken", { d: ribbon(x[3], y, mid - 7, (y + end) / 2) }), h("path.cross", { d: `M${mid - 5} ${(y + end) / 2 - 5}l10 10m0-10l-10 10` }));
  });
  for (const [d, y] of ys) {
    const open = edges.filter((e) => e.destination === d).reduce((n, e) => n + e.open, 0);
    parts.push(h("text.node", { x: x[4], y: y + 4 }, cut(d, width - x[4] - (wide ? 96 : 0)), h("title", d)));
    if (wide) parts.push(h("text", { class: `tick end ${open ? "warn" : ""}`, x: width, y: y + 4 }, open ? `${num(open)} open` : "nothing open"));
  }
  const heads = [[x[0], "Source"], [x[2], "Action"], [x[4], "Destination"]].map(([at, t]) => h("text.tick", { x: at, y: 12 }, t));
  const height = Math.max(top + edges.length * row, last + 24);
  return h("svg.flow", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" }, heads, parts);
}

export function open(page) {
  const box = h("div.drawn");
  let width = 0;
  /** @type {Edge[]} */
  let edges = [];
  const draw = () => { if (width && edges.length) fill(box, drawing(edges, width)); };
  new ResizeObserver(([e]) => { const w = Math.floor(e.contentRect.width); if (w !== width) { width = w; draw(); } }).observe(box);
  const rows = table({ label: "Flow, as a table", key: (e) => `${e.source} ${e.action}`, columns: [["Source", "w-source", (e) => h("a", { href: to("source", e.source) }, e.source)], ["24 hours", "w-n n", (e) => num(e.n)], ["Action", "w-type", (e) => e.action], ["Destination", "w-next p1", (e) => e.destination], ["Breaker", "w-state", (e) => e.breaker ? state(e.breaker) : "–"], ["Open", "w-n n", (e) => e.open ? h("b.warn", num(e.open)) : "0"]] });
  const main = panel(page, { slot: "main", wait: skeleton(6, "tall"), read: () => ["sources.list", []], draw: async (doc, body) => {
    if (!doc.items.length) return void fill(body, empty("There are no sources.", "The drawing shows sources, their actions, and where the actions send."));
    if (!box.isConnected) fill(body, h("p.dim.lead", "Thickness is the logarithm of the source's events in 24 hours. The ledger does not count each action."), box, h("section.panel", h("h2", "As a table"), rows.node));
    const plain = doc.items.flatMap((s) => (s.actions.length ? s.actions : ["keep"]).map((action) => ({ source: s.source, n: s.last_24h.count, open: s.open.count, action, destination: action === "keep" ? "inbox" : "…", breaker: "" })));
    edges = plain;
    draw();
    rows.show(edges);
    const shows = await Promise.all(doc.items.map((s) => page.read("sources.show", about("sources.show", s.source)).then((a) => { page.note(`show ${s.source}`, a); return a.doc; }, () => null)));
    const known = new Map(shows.filter(Boolean).flatMap((d) => d.destinations.map((x) => /** @type {[string, any]} */ ([`${d.source} ${x.action}`, x]))));
    edges = plain.map((e) => { const d = known.get(`${e.source} ${e.action}`); return { ...e, destination: d?.destination ?? (e.destination === "…" ? "built in" : e.destination), breaker: d?.breaker ?? "" }; });
    draw();
    rows.show(edges);
  } });
  fill(page.root, main.node);
  main.load();
  page.live(30, () => main.load());
  return {};
}
