// Overview: what is wrong, worst first, and what to do about it.
import { bars, hourly, sparks } from "../chart.js";
import { age, clock, command, copy, count, empty, facts, failure, fill, flag, h, keep, listing, mark, note, num, panel,
  plural, segments, skeleton, source, sourceLink, span, state, to, when, words } from "../kit.js";

/** What each code of `status` means, with the count. @type {Record<string, (n: any) => string>} */
const TITLES = {
  dead_letters: (n) => plural(n, "dead letter"), rejected: (n) => plural(n, "rejected request"),
  quarantined: (n) => plural(n, "quarantined event"),
  held: (n) => plural(n, "held event"), gaps: (n) => n ? plural(n, "missed event") : "Missed events",
  lost: (n) => n ? `${plural(n, "event")} lost` : "Events lost", drift: (n) => n
    ? `${plural(n, "object")} differ` : "Objects differ",
  failing: (n) => n ? `${plural(n, "event")} failing` : "Events are failing", late: () => "Events wait too long",
  work_dead_letters: (n) => `${plural(n, "work message")} in the dead-letter queue`, breaker_open: () =>
    "Circuit breaker open",
  paused: () => "Source paused", silent: () => "No webhooks arrive", sync_behind: () => "The sync is behind",
  endpoint: () => "The provider's subscription is failing", queue_backlog: () => "Messages pile up in the queue",
  spill_waiting: () => "Events wait in the spill queue", heartbeat: () => "A scheduled task does not run",
  plan_stopped: () => "A replay stopped", rotation_overdue: () => "A secret rotation is overdue",
  path_missing: () => "Events lack a value that Mitt reads",
};
const title = (item) => TITLES[item.code]?.(item.count ?? 0) ?? words(item.code);

/** The page that shows more about an item. */
function more(item) {
  const of = item.source ? [["source", item.source]] : [];
  const named = / (?:dlq inspect|replay (?:show|status)) ([\w-]+)/.exec(item.command ?? "")?.[1] ?? "";
  switch (item.code) {
    case "dead_letters": return to("dead", named);
    case "late": case "failing": return to("inbox", "", [["status", "failed"], ...of]);
    case "quarantined": return to("inbox", "", [["status", "quarantined"], ...of]);
    case "held": return to("approvals", "", of);
    case "rejected": return to("quarantine", "", of);
    case "silent": case "sync_behind": case "gaps": case "lost": return to("sync");
    case "drift": return to("drift");
    case "plan_stopped": return named ? to("plan", named) : to("plans");
    default: return item.source ? source(item.source) : to("doctor");
  }
}
const SHAPES = { bad: "square", warn: "triangle" };

function row(item, asOf) {
  const tone = item.severity === "note" ? "dim" : item.severity, name = title(item);
  return h(`li.item.${tone}`, mark(SHAPES[item.severity] ?? "ring", tone),
    h("div.said", h("p", h("a.go", { href: more(item) }, name), item.source ? h("span.source", item.source) : null),
      h("p.text", item.text)),
    h("div.since.dim", item.since ? ["since ", when(item.since), h("b", age(item.since, asOf))] : null),
    h("div.do", h("a.button.primary", { href: more(item), tabindex: -1, "aria-hidden": "true" }, "Look"),
      h("code", item.command),
      copy(() => item.command, "Copy command", `Copy command: ${name}`)));
}

function wrong(page) {
  const head = h("div.headline"), list = h("ol.items"), rest = h("div.unread");
  const node = h("section.wrong", { "aria-label": "What is wrong now" }, skeleton(3, "tall"));
  const draw = () => {
    const { doc, error, answer } = page.status;
    if (!doc) { if (error) fill(node, failure(error)); return; }
    if (head.parentNode !== node) fill(node, head, list, rest);
    node.classList.toggle("stale", Boolean(error));
    page.note("main", answer);
    const n = doc.items.length, newest = doc.newest_event, all = plural(doc.sources, "source"), at = clock(doc.as_of);
    if (n) fill(head, h("p.big", plural(n, "thing needs", "things need"), " attention"), note(n > 1 ? "Worst first. "
      : "", `${all} looked at ${at}`));
    else if (newest) fill(head, h("p.big.ok", mark("circle", "ok"), doc.not_read.length
      ? "Nothing is wrong in what could be read" : "Nothing is wrong"),
      note(`Last event ${age(newest.received_at, doc.as_of)} ago from ${newest.source}. ${all} looked at ${at}`));
    else fill(head, h("p.big", "No event has arrived yet"),
      note("Add a source, give its address to the provider, and send a test webhook:"),
      h("p.row", command("webhookctl sources add stripe"), command("webhookctl send stripe --wait")));
    keep(list, doc.items, (i) => JSON.stringify([i, age(i.since, doc.as_of)]), (i) => row(i, doc.as_of));
    fill(rest, doc.not_read.map((r) => h("p.row.dim", mark("ring", "dim"), h("b", `${r.what}: not looked at. `),
      r.reason)));
    page.title(n ? `(${n}) Overview` : "Overview");
  };
  page.status.addEventListener("change", draw, { signal: page.signal });
  draw();
  return node;
}

/** The age of the oldest open event in each minute, as this tab has seen it. */
const oldest = { minutes: /** @type {Map<number, number>} */ (new Map()), limit: 900 };
function oldestOpen(page) {
  const chart = bars({ name: "Oldest open event, by minute since this tab was opened",
    series: [["Oldest open", "warn"]], unit: "second", step: 6e4, height: 112,
    text: span, limit: oldest.limit });
  const node = h("section.panel", { hidden: true }, h("header", h("h2.grow", "Oldest open event"), chart.twinButton),
    chart.node);
  return { node, saw(doc) {
    const minute = Math.floor(Date.parse(doc.as_of) / 6e4) * 6e4;
    oldest.minutes.set(minute, Math.max(0, ...doc.items.map((i) => i.oldest_open_s ?? 0)));
    const first = Math.max(minute - 59 * 6e4, Math.min(...oldest.minutes.keys()));
    const list = [];
    let last = 0;
    for (let at = Math.min(first, minute - 14 * 6e4); at <= minute; at += 6e4) {
      last = oldest.minutes.get(at) ?? last;
      list.push({ at, parts: [at < first ? 0 : last], counted: at >= first, open: at === minute });
    }
    node.hidden = ![...oldest.minutes.values()].some(Boolean);
    chart.show(list);
  } };
}

/** @type {[string, string, number][]} */
const SPANS = [["24h", "24 hours", 24], ["7d", "7 days", 168], ["30d", "30 days", 720]];
const ORDER = ["failing", "late", "quiet"];
const rank = (s) => (ORDER.indexOf(s.health) + 9) % 9;
const CHECKS = { "queue.depth": "Work queue", "queue.work_dead_letters": "Work dead letters",
  "queue.failed_runs": "Failed runs" };

export function open(page, route) {
  let range = flag(route.flags, "since") || "24h";
  const tabs = h("div.segments", { role: "group", "aria-label": "Time range" });
  const spans = () => segments(tabs, SPANS.map(([v, text]) => [text, to("overview", "", v === "24h" ? []
    : [["since", v]]), v === range]));
  const hours = hourly(page, panel, { title: "Arrivals and outcomes", actions: tabs, flags: () => [["since", range]],
    hours: () => SPANS.find(([v]) => v === range)?.[2] ?? 24 });
  const lines = sparks(page), oldestPlot = oldestOpen(page);
  const zero = (c, tone) => c.count ? h(`b.${tone}`, count(c)) : h("span.dim", "0");
  const sources = listing(page, { title: "Sources", slot: "stats", wait: [5], label: "Sources, last 24 hours",
    key: (s) => s.source, link: (s) => source(s.source),
    read: () => ["inbox.stats"], order: (a, b) => rank(a) - rank(b),
    none: empty("No source has received an event in the last 24 hours."), columns: () => [
      ["Source", "w-source", (s) => sourceLink(s.source, ".go")], ["Health", "w-state",
        (s) => state(s.health)],
      ["Received", "n", (s) => count(s.received)], ["By hour, last", "w-spark.p2", (s) => lines.cell(s.source)],
      ["Failing", "n.p2", (s) => zero(s.failed, "warn")], ["Dead", "n", (s) => zero(s.dead_letters, "bad")],
      ["p50", "n.p4", (s) => span(s.p50_s)], ["p95", "n.p2", (s) => span(s.p95_s)], ["Oldest open", "w-age.n.p4",
        (s) => span(s.oldest_open_s)]],
    after: (doc) => { oldestPlot.saw(doc); return null; } });
  const waiting = panel(page, { title: "Queues", slot: "queue", wait: [3], read: () => ["doctor",
    [["only", Object.keys(CHECKS).join()]]], draw: (doc, body) =>
    fill(body, facts(doc.items.map((i) => [CHECKS[i.check] ?? i.check,
      h(`span.${{ pass: "", fail: "bad" }[i.result] ?? "warn"}`, i.found)]))) });
  const sync = panel(page, { title: h("a", { href: to("sync") }, "Sync"), slot: "sync", wait: [3],
    read: () => ["sync.status"], draw: (doc, body) => {
    const items = doc.items.filter((i) => i.cursor);
    fill(body, items.length ? facts(items.map((i) => [i.source, [state(i.state, i.missed ? `${num(i.missed)} missed`
      : words(i.state)),
      i.lag_s ? h("span.dim", `, ${span(i.lag_s)} behind`) : null]]))
        : note("No source has a sync. Without a sync, Mitt cannot know what never arrived."));
  } });
  let rounds = 0;
  const slow = async () => {
    await Promise.all([hours, sources, waiting, sync].map((it) => it.load()));
    if (rounds++ % 10 === 0 && !page.signal.aborted) await lines.load(sources.names(), sources.redraw);
  };
  spans();
  fill(page.root, wrong(page), hours.node, oldestPlot.node, h("div.split", sources.node, h("div.side", waiting.node,
    sync.node)));
  page.status.load();
  slow();
  page.live(5, page.status.load);
  let ticks = 0;
  page.status.addEventListener("change", () => { if (++ticks % 6 === 0) slow(); }, { signal: page.signal });
  return {
    update(next) { range = flag(next.flags, "since") || "24h"; spans(); hours.load(); },
  };
}
