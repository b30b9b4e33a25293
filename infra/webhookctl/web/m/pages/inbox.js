// Inbox: which events, and are there more of them?
import { hourly } from "../chart.js";
import { parseFilter, printFilter, readsBodies } from "../filter.js";
import { ago, button, command, eventId, eventPage, failure, fill, flag, h, note, num, panel, plural, segments, set,
  state, statusOf, table, to, withFlag } from "../kit.js";
import { follow } from "../live.js";
import { planButton } from "../write.js";

/** @type {[string, [string, string][]][]} */
const VIEWS = [["All", []], ["Failing", [["status", "failed"]]], ["Dead letters", [["status", "dead_letter"]]],
  ["Quarantined", [["status", "quarantined"]]], ["Held", [["status", "held"]]],
  ["Found by sync", [["via", "backup_sync"]]],
  ["Retried", [["attempts", "2"]]]];
const TIMES = ["source", "since", "until"];

function nextOf(e) {
  const { code, text } = e.next_action ?? {};
  return code && code !== "none" ? text : h("span.dim", "–");
}
/** @returns {[any, string, (item: any) => any][]} */
const columns = (at) => [
  ["Age", "w-age.n", (e) => ago(e.received_at, at.asOf)], ["Status", "w-status", (e) => state(statusOf(e))],
  ["Event", "w-id.p1", eventId], ["Source", "w-source.p2",
    (e) => e.source],
  ["Type", "", (e) => h("a.type", { href: eventPage(e), tabindex: -1 }, e.type)], ["Tries", "w-n.n.p2",
    (e) => num(e.attempt_count)],
  ["Next", "w-next.p3", nextOf],
];

export function open(page, route) {
  let flags = route.flags, confirmed = !readsBodies(flags), cursor = "";
  const at = { asOf: "" }, fresh = new Map();
  const input = h("input.mono", { id: "filter", "aria-describedby": "filtersays",
    placeholder: "status:failed source:… type:invoice.* since:2h" });
  const says = h("div", { id: "filtersays" }), chips = h("div.chips"), foot = h("div.listfoot.dim");
  const views = h("div.tabs", { role: "group", "aria-label": "Views" });
  const news = button("", () => reload(), ".news", { hidden: true });
  const plan = planButton(page, () => flags, "safe", "p");
  const rows = table({ label: "Events, newest first", key: (e) => e.id, link: eventPage, columns: columns(at) });
  const counted = () => flags.filter(([name]) => TIMES.includes(name));
  const hours = hourly(page, panel, { compact: true, flags: counted, settled: (error) =>
    { hours.node.hidden = Boolean(error); },
    pick: (from, until) => page.go(to("inbox", "", withFlag(withFlag(flags, "since", from), "until", until))) });
  const ask = (more = []) => ["inbox.list", [["limit", "50"], ...more, ...flags]];
  const list = panel(page, { kind: ".list", wait: [12], read: () => confirmed ? ask() : null, settled: said,
    draw: (doc, body) => {
    at.asOf = doc.as_of;
    if (!rows.node.isConnected) fill(body, rows.node, foot);
    rows.show(doc.items);
    ends(doc);
  } });

  /** A wrong filter leaves the list as it was. */
  function said(error) {
    set(input, "aria-invalid", error ? "true" : null);
    list.node.classList.toggle("stale", Boolean(error));
    if (error) fill(says, failure(error)); else if (confirmed) fill(says);
  }
  function ends(doc) {
    cursor = doc.next_cursor ?? "";
    const n = rows.items.length, newest = page.status.doc?.newest_event;
    rows.node.hidden = !n;
    if (n) return fill(foot, h("span", doc.truncated ? `${num(n)} newest, there are more` : `All ${num(n)}`,
      doc.uncounted_hours ? `; ${plural(doc.uncounted_hours, "hour is", "hours are")} not counted` : ""),
      cursor ? button("50 more", older) : null);
    fill(foot, h("div.empty", h("p", flags.length ? ["Nothing matches ", h("code", printFilter(flags)), "."]
      : "No event arrived in the last 24 hours."),
      newest ? note("The newest event came ", ago(newest.received_at, undefined, " ago"), ` from ${newest.source}.`)
        : command("webhookctl send stripe --wait"),
      h("p.row", flags.length ? h("a.button", { href: "#/inbox" }, "Clear the filter") : null,
        h("a.button", { href: to("inbox", "", withFlag(flags, "since", "7d")) }, "Look at 7 days"))));
  }
  async function older() {
    try {
      const { doc } = await page.read(...ask([["after", cursor]]));
      rows.show([...rows.items, ...doc.items]);
      ends(doc);
    } catch (error) { said(error); }
  }
  function newer() {
    const n = fresh.size;
    news.hidden = !n;
    if (n) { fill(news, `${num(n)} new`, h("kbd", ".")); page.announce(plural(n, "new event")); }
  }
  function reload() { fresh.clear(); newer(); return list.load(); }
  function warn() {
    fill(says, h("div.failure.calm", h("p",
      h("b", "This filter reads the request or the body of every event in its time range."),
      " A shorter range reads less: ", h("code", "since:1h")),
    h("p", button("Read them", () => { confirmed = true; fill(says); list.load(); }, ".primary"))));
  }
  function draw() {
    if (document.activeElement !== input) input.value = printFilter(flags);
    const only = printFilter(flags.filter(([name]) => !TIMES.includes(name)));
    segments(views, VIEWS.map(([name, view]) => [name, to("inbox", "", [...view, ...counted()]),
      only === printFilter(view)]));
    fill(chips, flags.map(([name, value], i) => h("a.chip", { href: to("inbox", "", flags.filter((_, k) => k !== i)),
      "aria-label": `Remove ${name} ${value}` },
      h("span.dim", `${name} `), value, h("span", { "aria-hidden": "true" }, "×"))));
    const what = flag(flags, "status") || flag(flags, "source");
    page.title(what ? `Inbox: ${what}` : "Inbox");
  }
  function changed(change) {
    const known = rows.items.find((e) => e.id === change.id);
    if (known) rows.change({ ...known, held_by: null, status: change.status,
      attempt_count: Math.max(known.attempt_count, change.attempt),
      next_action: change.status === "done" ? null
        : { code: "wait", text: change.detail.replace(/^./, (c) => c.toUpperCase()) } });
    else if (change.change === "stored" || change.change === "quarantined") { fresh.set(change.id, change); newer(); }
  }
  input.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") { input.value = printFilter(flags); input.blur(); }
    if (key !== "Enter") return;
    const typed = parseFilter(input.value);
    confirmed = true;
    if (printFilter(typed) === printFilter(flags)) reload(); else page.go(to("inbox", "", typed));
  });
  let following = new AbortController();
  page.signal.addEventListener("abort", () => following.abort());
  function start() {
    following.abort();
    following = new AbortController();
    const of = flags.filter(([name]) => !["limit", "after", "since", "status"].includes(name));
    if (confirmed && !flag(flags, "until")) follow(of, following.signal, changed);
  }
  fill(page.root, h("div.bar", h("div.search", h("label.vh", { for: "filter" }, "Filter"), input,
    h("kbd", { "aria-hidden": "true" }, "/")), news, plan),
    says, chips, views, hours.node, list.node);
  draw();
  if (!confirmed) warn();
  list.load();
  hours.load();
  start();
  page.liveText("1s");
  return {
    update(next) {
      flags = next.flags;
      confirmed ||= !readsBodies(flags);
      draw();
      reload();
      hours.load();
      start();
    },
    keys: [["/", "Filter", () => { input.focus(); input.select(); }], [".", "Show new events", reload],
      ...(plan ? [["p", "Plan a replay of what matches", () => plan.click()]] : [])],
  };
}
