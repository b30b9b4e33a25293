// @ts-check
// Overview: what is wrong, worst first, and what to do about it.
import { OUTCOMES, bars, ofHours, twinButton } from "../chart.js";
import { fill, h, keep } from "../h.js";
import { empty, failure, panel, skeleton } from "../panel.js";
import { flag, to, withFlag } from "../route.js";
import { rowKeys, table } from "../table.js";
import { age, clock, command, copy, count, facts, mark, num, plural, span, state, when, words } from "../words.js";

/** What each code of `status` means. `n` is the count. @type {Map<string, (n: number | null) => string>} */
const TITLES = new Map(Object.entries({
  dead_letters: (n) => plural(n ?? 0, "dead letter"), late: () => "Events wait too long", failing: (n) => n ? `${plural(n, "event")} failing` : "Events are failing",
  breaker_open: () => "Circuit breaker open", paused: () => "Source paused", rejected: (n) => plural(n ?? 0, "rejected request"), quarantined: (n) => plural(n ?? 0, "quarantined event"),
  silent: () => "No webhooks arrive", sync_behind: () => "The sync is behind", gaps: (n) => n ? plural(n, "missed event") : "Missed events", lost: (n) => n ? `${plural(n, "event")} lost` : "Events lost",
  drift: (n) => n ? `${plural(n, "object")} differ` : "Objects differ", endpoint: () => "The provider's subscription is failing", queue_backlog: () => "Messages pile up in the queue", spill_waiting: () => "Events wait in the spill queue",
  work_dead_letters: (n) => plural(n ?? 0, "work message") + " in the dead-letter queue", heartbeat: () => "A scheduled task does not run", plan_stopped: () => "A replay stopped", rotation_overdue: () => "A secret rotation is overdue",
}));
/** The page that shows more about an item. */
function more(item) {
  const source = item.source ?? "", of = /** @type {import("../api.js").Flags} */ (source ? [["source", source]] : []);
  const named = / (?:dlq inspect|replay (?:show|status)) ([\w-]+)/.exec(item.command ?? "")?.[1] ?? "";
  const inbox = (status) => to("inbox", "", [["status", status], ...of]);
  const pages = new Map(Object.entries({ dead_letters: to("dead", named), late: inbox("failed"), failing: inbox("failed"), rejected: to("quarantine", "", of), quarantined: inbox("quarantined"),
    silent: to("sync"), sync_behind: to("sync"), gaps: to("sync"), lost: to("sync"), drift: to("drift"), plan_stopped: named ? to("plan", named) : to("plans") }));
  return pages.get(item.code) ?? (source ? to("source", source) : to("doctor"));
}
const shapeOf = (severity) => severity === "bad" ? "square" : severity === "warn" ? "triangle" : "ring";

function row(item, asOf) {
  const title = (TITLES.get(item.code) ?? (() => words(item.code)))(item.count);
  const tone = item.severity === "note" ? "dim" : item.severity;
  return h("li", { class: `item ${tone}` }, mark(shapeOf(item.severity), tone),
    h("div.said", h("p", h("a.go", { href: more(item) }, title), item.source ? h("span.source", item.source) : null), h("p.text", item.text)),
    h("div.since.dim", item.since ? ["since ", when(item.since), h("b", age(item.since, asOf))] : null),
    h("div.do", h("a.button.primary", { href: more(item), tabindex: -1, "aria-hidden": "true" }, "Look"), h("code", item.command), copy(() => item.command, "Copy command", `Copy command: ${title}`)));
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
    const n = doc.items.length, worst = doc.items[0]?.severity;
    const newest = doc.newest_event;
    if (n) fill(head, h("p.big", plural(n, "thing needs", "things need"), " attention"), h("p.dim", n > 1 ? "Worst first. " : "", plural(doc.sources, "source"), " looked at ", h("time", { datetime: doc.as_of }, clock(doc.as_of))));
    else if (newest) fill(head, h("p.big.ok", mark("circle", "ok"), doc.not_read.length ? "Nothing is wrong in what could be read" : "Nothing is wrong"), h("p.dim", `Last event ${age(newest.received_at, doc.as_of)} ago from ${newest.source}. ${plural(doc.sources, "source")} looked at ${clock(doc.as_of)}`));
    else fill(head, h("p.big", "No event has arrived yet"), h("p.dim", "Add a source, give its address to the provider, and send a test webhook:"), h("div.steps", command("webhookctl sources add stripe"), command("webhookctl send stripe --wait")));
    head.className = `headline ${worst ?? ""}`;
    keep(list, doc.items, (i) => [i.code, i.source, i.command, i.count, i.text, i.severity, age(i.since, doc.as_of)].join("|"), (i) => row(i, doc.as_of));
    fill(rest, doc.not_read.map((r) => h("p.dim", mark("ring", "dim"), h("b", `${r.what}: not looked at. `), r.reason)));
    page.title(n ? `(${n}) Overview` : "Overview");
  };
  page.status.addEventListener("change", draw, { signal: page.signal });
  draw();
  return node;
}

const SPANS = /** @type {[string, string][]} */ ([["24h", "24 hours"], ["7d", "7 days"], ["30d", "30 days"]]);

export function open(page, route) {
  let span_ = flag(route.flags, "since") || "24h";
  const chart = bars({ series: OUTCOMES, unit: "events", stepS: 3600, name: "Events by hour" });
  const tabs = h("div.segments", { role: "group", "aria-label": "Time range" });
  const spans = () => fill(tabs, SPANS.map(([value, text]) => h("a", { href: to("overview", "", withFlag([], "since", value === "24h" ? "" : value)), "aria-current": value === span_ ? "true" : null }, text)));
  const hours = panel(page, { title: "Arrivals and outcomes", slot: "hours", class: "wide", actions: [twinButton(chart), tabs], wait: skeleton(1, "chart"), read: () => ["inbox.stats", [["by", "hour"], ["since", span_]]],
    draw: (doc, body) => { if (!chart.node.isConnected) fill(body, chart.node); chart.show(ofHours(doc, { "7d": 168, "30d": 720 }[span_] ?? 24)); } });
  const rows = table({ label: "Sources, last 24 hours", key: (s) => s.source, link: (s) => to("source", s.source), columns: [
    ["Source", "w-source", (s) => h("a.go", { href: to("source", s.source) }, s.source)], ["Health", "w-state", (s) => state(s.health)],
    ["Received", "n", (s) => count(s.received)], ["Failing", "n p2", (s) => s.failed.count ? h("b.warn", count(s.failed)) : h("span.dim", "0")],
    ["Dead", "n", (s) => s.dead_letters.count ? h("b.bad", count(s.dead_letters)) : h("span.dim", "0")],
    ["p50", "n p3", (s) => span(s.p50_s)], ["p95", "n p2", (s) => span(s.p95_s)], ["Oldest open", "n p3", (s) => span(s.oldest_open_s)]] });
  const order = ["failing", "late", "quiet"];
  const sources = panel(page, { title: "Sources", slot: "stats", wait: skeleton(5), read: () => ["inbox.stats", []],
    draw: (doc, body) => {
      if (!doc.items.length) return void fill(body, empty("No source has received an event in the last 24 hours."));
      if (!rows.node.isConnected) fill(body, rows.node);
      rows.show([...doc.items].sort((a, b) => rank(a) - rank(b)));
    } });
  const rank = (s) => order.includes(s.health) ? order.indexOf(s.health) : 9;
  const waiting = panel(page, { title: "Queues", slot: "queue", wait: skeleton(3), read: () => ["doctor", [["only", "queue.depth,queue.work_dead_letters,queue.failed_runs"]]],
    draw: (doc, body) => void fill(body, facts(doc.items.map((i) => [({ "queue.depth": "Work queue", "queue.work_dead_letters": "Work dead letters", "queue.failed_runs": "Failed runs" })[/** @type {string} */ (i.check)] ?? i.check, h("span", { class: i.result === "pass" ? "" : i.result === "fail" ? "bad" : "warn" }, i.found)]))) });
  const sync = panel(page, { title: h("a", { href: to("sync") }, "Sync"), slot: "sync", wait: skeleton(3), read: () => ["sync.status", []],
    draw: (doc, body) => {
      const with_ = doc.items.filter((i) => i.cursor);
      fill(body, with_.length ? facts(with_.map((i) => [i.source, h("span", state(i.state, i.missed ? `${num(i.missed)} missed` : words(i.state)), h("span.dim", i.lag_s ? `, ${span(i.lag_s)} behind` : ""))])) : h("p.dim", "No source has a sync. Without a sync, Mitt cannot know what never arrived."));
    } });
  spans();
  fill(page.root, wrong(page), hours.node, h("div.split", sources.node, h("div.side", waiting.node, sync.node)));
  const slow = () => Promise.all([hours.load(), sources.load(), waiting.load(), sync.load()]);
  page.status.load();
  slow();
  page.live(5, () => page.status.load());
  let ticks = 0;
  page.status.addEventListener("change", () => { if (++ticks % 6 === 0) slow(); }, { signal: page.signal });
  return {
    update(next) { span_ = flag(next.flags, "since") || "24h"; spans(); hours.load(); },
    keys: rowKeys(page.root),
  };
}
