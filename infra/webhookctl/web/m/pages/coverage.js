// @ts-check
// Sync: what never arrived, and how late was it noticed?
import { fill, h } from "../h.js";
import { empty, panel, skeleton } from "../panel.js";
import { flag, to } from "../route.js";
import { table } from "../table.js";
import { ago, command, day, num, span, state, when } from "../words.js";

const LEVELS = /** @type {[string, string][]} */ ([["l0", "nothing missed"], ["l1", "under 1 %"], ["l2", "under 5 %"], ["l3", "5 % or more"], ["none", "no data"]]);
const level = (rate) => rate === null ? "none" : rate === 0 ? "l0" : rate < 1 ? "l1" : rate < 5 ? "l2" : "l3";

/** A table of sources and days; each square is a link to its gaps. @param {string} since */
function heat(doc, since) {
  /** @type {Map<string, Map<string, any>>} */
  const sources = new Map();
  const days = new Set();
  for (const i of doc.items) {
    if (i.day === "-") continue;
    days.add(i.day);
    if (!sources.has(i.source)) sources.set(i.source, new Map());
    sources.get(i.source)?.set(i.day, i);
  }
  const all = [...days].sort();
  return h("div.tablebox.heatbox", { tabindex: 0, role: "region", "aria-label": "Missed events by source and day" }, h("table.heat", { "aria-label": "Missed events by source and day" },
    h("thead", h("tr", h("th", { scope: "col" }, "Source"), all.map((d, i) => h("th", { scope: "col", title: d }, h("span", { class: i % 7 === 0 && i < all.length - 3 || all.length < 10 || i === all.length - 1 ? "" : "vh" }, day(`${d}T12:00:00Z`)))), h("th.n", { scope: "col" }, "Missed"))),
    h("tbody", [...sources].map(([name, row]) => {
      const known = [...row.values()].filter((r) => r.seen !== null), missed = known.reduce((n, r) => n + r.sync_only, 0);
      return h("tr", h("th", { scope: "row" }, h("a", { href: to("source", name) }, name)), all.map((d) => {
        const r = row.get(d), rate = r?.miss_rate_percent ?? null;
        const says = `${name}, ${d}: ${rate === null ? "no data" : `${num(rate)} % of ${num(r.seen)} missed`}`;
        return h("td", h("a", { class: `sq ${level(rate)}`, href: to("sync", "", [["since", since], ["source", name], ["day", d]]), title: says, "aria-label": says }));
      }), h("td.n", known.length ? num(missed) : "–"));
    }))));
}

export function open(page, route) {
  let flags = route.flags;
  const since = () => flag(flags, "since") || "30d";
  const at = { asOf: "" };
  const tabs = h("div.segments", { role: "group", "aria-label": "Time range" });
  const cover = panel(page, { title: "Missed events by day", slot: "main", actions: tabs, wait: skeleton(5), read: () => ["sync.coverage", [["since", since()]]], draw: (doc, body) => {
    if (!doc.items.some((i) => i.day !== "-")) return void fill(body, empty("No source has a sync.", "Without a sync, Mitt cannot know what never arrived. A sync reads the provider's own list and adds what is missing.", command("webhookctl sources presets")));
    fill(body, heat(doc, since()), h("p.legend", LEVELS.map(([c, text]) => h("span.key2", h("span", { class: `sq ${c}` }), text))));
    body.firstElementChild.scrollLeft = 1e6;
  } });
  const gapRows = table({ label: "Gaps", key: (g) => `${g.source} ${g.event_id ?? g.happened_at} ${g.kind}`, columns: [
    ["Happened", "w-time", (g) => when(g.happened_at)], ["Source", "w-source p1", (g) => g.source], ["Type", "w-type", (g) => g.type ?? g.kind],
    ["Event", "w-id mono p3", (g) => g.event_id ? h("a", { href: to("inbox", "", [["id", g.event_id]]) }, g.event_id) : "–"], ["Found", "w-time p2", (g) => when(g.found_at)], ["Late", "w-age n p1", (g) => span(g.late_s)], ["Now", "w-state", (g) => g.status ? state(g.status) : state("lost")]] });
  const gapTitle = h("span", "Gaps");
  const gaps = panel(page, { title: gapTitle, slot: "gaps", wait: skeleton(3), read: () => {
    const d = flag(flags, "day"), s = flag(flags, "source");
    fill(gapTitle, "Gaps", s ? ` of ${s}` : "", d ? `, ${d}` : "");
    const next = d ? new Date(Date.parse(`${d}T00:00:00Z`) + 864e5).toISOString().slice(0, 10) : "";
    return ["sync.gaps", [["since", d || since()], .../** @type {any} */ (next ? [["until", next]] : []), .../** @type {any} */ (s ? [["source", s]] : [])]];
  }, draw: (doc, body) => { fill(body, doc.items.length ? gapRows.node : h("p.dim", "Nothing was missed in this time.")); gapRows.show(doc.items.slice(0, 200)); } });
  const rows = table({ label: "Sync of each source", key: (s) => s.source, link: (s) => to("source", s.source), columns: [
    ["Source", "w-source", (s) => h("a.go", { href: to("source", s.source) }, s.source)], ["Sync", "w-state", (s) => state(s.paused ? "paused" : s.state)], ["Behind", "w-age n", (s) => span(s.lag_s)], ["Last run", "w-age n p2", (s) => ago(s.last_run_ended_at, at.asOf)],
    ["Seen", "n p2", (s) => s.cursor ? num(s.seen) : "–"], ["Missed", "n", (s) => s.missed ? h("b.warn", num(s.missed)) : s.cursor ? "0" : "–"], ["Newest", "w-age n p1", (s) => ago(s.silence?.last_webhook_at, at.asOf)],
    ["Silence", "w-next p3", (s) => s.silence?.silent_s ? h("span.warn", `silent for ${span(s.silence.silent_s)}, usually every ${span(s.silence.usually_s)}`) : s.silence?.usually_s ? `usually every ${span(s.silence.usually_s)}` : s.note ?? "–"]] });
  const status = panel(page, { title: "Sync of each source", slot: "status", wait: skeleton(5), read: () => ["sync.status", []], draw: (doc, body) => {
    at.asOf = doc.as_of;
    fill(body, doc.items.length ? rows.node : h("p.dim", "There are no sources."));
    rows.show([...doc.items].sort((a, b) => Number(Boolean(b.cursor)) - Number(Boolean(a.cursor))));
  } });
  const spans = () => fill(tabs, [["7d", "7 days"], ["30d", "30 days"], ["90d", "90 days"]].map(([v, text]) => h("a", { href: to("sync", "", [["since", v]]), "aria-current": since() === v ? "true" : null }, text)));
  spans();
  fill(page.root, h("p.lead.dim", "What the provider lists and no webhook brought. A square is a day; no data is not the same as nothing missed."), cover.node, gaps.node, status.node);
  cover.load(); gaps.load(); status.load();
  return { update(next) { const range = since(); flags = next.flags; spans(); if (since() !== range) cover.load(); gaps.load(); } };
}
