// Sync: what never arrived, and how late was it noticed?
import { ago, command, day, empty, fill, flag, h, lead, listing, note, num, panel, segments, source, sourceLink, span,
  state, to, when } from "../kit.js";

const LEVELS = [["l0", "nothing missed"], ["l1", "under 1 %"], ["l2", "under 5 %"], ["l3", "5 % or more"],
  ["none", "no data"]];
const level = (rate) => rate === null ? "none" : rate === 0 ? "l0" : rate < 1 ? "l1" : rate < 5 ? "l2" : "l3";
const SPANS = [["7d", "7 days"], ["30d", "30 days"], ["90d", "90 days"]];

/** A table of sources and days; each square is a link to its gaps. */
function heat(doc, since) {
  const sources = new Map();
  for (const i of doc.items.filter((i) => i.day !== "-")) {
    if (!sources.has(i.source)) sources.set(i.source, new Map());
    sources.get(i.source).set(i.day, i);
  }
  const days = [...new Set([...sources.values()].flatMap((row) => [...row.keys()]))].sort(), last = days.length - 1;
  const label = "Missed events by source and day";
  const square = (name, d, r) => {
    const rate = r?.miss_rate_percent ?? null;
    const says = `${name}, ${d}: ${rate === null ? "no data" : `${num(rate)} % of ${num(r.seen)} missed`}`;
    const href = to("sync", "", [["since", since], ["source", name], ["day", d]]);
    return h("td", h(`a.sq.${level(rate)}`, { href, title: says, "aria-label": says }));
  };
  return h("div.tablebox.heatbox", { tabindex: 0, role: "region", "aria-label": label }, h("table.heat",
    { "aria-label": label },
    h("thead", h("tr", h("th", { scope: "col" }, "Source"), days.map((d, i) => h("th", { scope: "col", title: d },
      h(i % 7 === 0 && i < last - 2 || last < 9 || i === last ? "span" : "span.vh", day(`${d}T12:00:00Z`)))),
      h("th.n", { scope: "col" }, "Missed"))),
    h("tbody", [...sources].map(([name, row]) => {
      const known = [...row.values()].filter((r) => r.seen !== null);
      return h("tr", h("th", { scope: "row" }, sourceLink(name)), days.map((d) => square(name, d,
        row.get(d))),
        h("td.n", known.length ? num(known.reduce((n, r) => n + r.sync_only, 0)) : "–"));
    }))));
}

export function open(page, route) {
  let flags = route.flags;
  const since = () => flag(flags, "since") || "30d";
  const tabs = h("div.segments", { role: "group", "aria-label": "Time range" }), gapTitle = h("span");
  const cover = panel(page, { title: "Missed events by day", actions: tabs, wait: [5], read: () => ["sync.coverage",
    [["since", since()]]], draw: (doc, body) => {
    if (!doc.items.some((i) => i.day !== "-")) return fill(body, empty("No source has a sync.",
      "Without a sync, Mitt cannot know what never arrived. " +
      "A sync reads the provider's own list and adds what is missing.", command("webhookctl sources presets")));
    fill(body, heat(doc, since()), h("p.legend", LEVELS.map(([name, text]) => h("span.row", h(`span.sq.small.${name}`),
      text))));
    body.firstElementChild.scrollLeft = 1e6;
  } });
  const gaps = listing(page, { title: gapTitle, slot: "gaps", wait: [3], label: "Gaps",
    key: (g) => `${g.source} ${g.event_id ?? g.happened_at} ${g.kind}`,
    none: note("Nothing was missed in this time."), read: () => {
      const d = flag(flags, "day"), name = flag(flags, "source");
      fill(gapTitle, "Gaps", name ? ` of ${name}` : "", d ? `, ${d}` : "");
      const until = d && new Date(Date.parse(d) + 864e5).toISOString().slice(0, 10);
      return ["sync.gaps", [["since", d || since()], ...(until ? [["until", until]] : []), ...(name ? [["source", name]]
        : [])]];
    }, columns: () => [["Happened", "w-time", (g) => when(g.happened_at)], ["Source", "w-source.p1", (g) => g.source],
      ["Type", "", (g) => g.type ?? g.kind], ["Event", "w-id.mono.p3", (g) => g.event_id ? h("a.foreign",
        { href: to("inbox", "", [["id", g.event_id]]) }, g.event_id) : "–"],
      ["Found", "w-time.p2", (g) => when(g.found_at)], ["Late", "w-age.n.p1", (g) => span(g.late_s)], ["Now", "w-state",
        (g) => state(g.status ?? "lost")]] });
  const silence = (s) => s?.silent_s ? h("span.warn",
    `silent for ${span(s.silent_s)}, usually every ${span(s.usually_s)}`)
    : s?.usually_s ? `usually every ${span(s.usually_s)}` : null;
  const status = listing(page, { title: "Sync of each source", slot: "status", wait: [5],
    key: (s) => s.source,
    link: (s) => source(s.source), read: () => ["sync.status"], none: note("There are no sources."), order: (a, b) =>
      Number(!a.cursor) - Number(!b.cursor),
    columns: (at) => [["Source", "w-source", (s) => sourceLink(s.source, ".go")],
      ["Sync", "w-state", (s) => state(s.paused ? "paused" : s.state)],
      ["Behind", "w-age.n", (s) => span(s.lag_s)], ["Last run", "w-age.n.p2", (s) => ago(s.last_run_ended_at, at.asOf)],
      ["Seen", "n.p2", (s) => s.cursor ? num(s.seen) : "–"], ["Missed", "n", (s) => s.missed ? h("b.warn",
        num(s.missed)) : s.cursor ? "0" : "–"],
      ["Newest", "w-age.n.p1", (s) => ago(s.silence?.last_webhook_at, at.asOf)], ["Silence", "w-next.p3",
        (s) => silence(s.silence) ?? s.note ?? "–"]] });
  const spans = () => segments(tabs, SPANS.map(([v, text]) => [text, to("sync", "", [["since", v]]), since() === v]));
  spans();
  fill(page.root, lead("What the provider lists and no webhook brought. A square is a day. ",
    "No data does not mean that nothing was missed."),
    cover.node, gaps.node, status.node);
  [cover, gaps, status].forEach((it) => it.load());
  return { update(next) {
    const range = since();
    flags = next.flags;
    spans();
    if (since() !== range) cover.load();
    gaps.load();
  } };
}
