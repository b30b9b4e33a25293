// @ts-check
// Inbox: which events, and are there more of them?
import { bars, ofHours, OUTCOMES } from "../chart.js";
import { parseFilter, printFilter, readsBodies } from "../filter.js";
import { fill, h, set } from "../h.js";
import { follow } from "../live.js";
import { failure, panel, skeleton } from "../panel.js";
import { flag, to, withFlag } from "../route.js";
import { rowKeys, table } from "../table.js";
import { ago, capital, num, short, state } from "../words.js";
import { planDialog } from "../write.js";

const VIEWS = /** @type {[string, import("../api.js").Flags][]} */ ([["All", []], ["Failing", [["status", "failed"]]], ["Dead letters", [["status", "dead_letter"]]], ["Quarantined", [["status", "quarantined"]]], ["Found by sync", [["via", "backup_sync"]]], ["Retried", [["attempts", "2"]]]]);
const NOT_A_CHANGE = new Set(["limit", "after"]);

/** @returns {import("../table.js").Column<any>[]} */
const columns = (at) => [
  ["Age", "w-age n", (e) => ago(e.received_at, at.asOf)],
  ["Status", "w-status", (e) => state(e.status)],
  ["Event", "w-id p1", (e) => h("a.go.mono", { href: to("event", e.id) }, short(e.id))],
  ["Source", "w-source p2", (e) => e.source],
  ["Type", "w-type", (e) => h("a.type", { href: to("event", e.id), tabindex: -1 }, e.type)],
  ["Tries", "w-n n p2", (e) => num(e.attempt_count)],
  ["Next", "w-next p3", (e) => e.next_action ? h("span", { class: e.next_action.code === "none" ? "dim" : "" }, e.next_action.code === "none" ? "–" : e.next_action.text) : ""],
];

export function open(page, route) {
  let flags = route.flags;
  let confirmed = !readsBodies(flags);
  let cursor = "";
  const at = { asOf: "" };
  /** @type {Map<string, any>} */
  const fresh = new Map();
  const input = h("input", { id: "filter", class: "mono", autocomplete: "off", autocapitalize: "off", spellcheck: "false", placeholder: "status:failed source:… type:invoice.* since:2h", "aria-describedby": "filtersays" });
  const says = h("div", { id: "filtersays" }), chips = h("div.chips"), views = h("div.tabs", { role: "group", "aria-label": "Views" });
  const news = h("button", { class: "news", hidden: true, on: { click: () => reload() } });
  const plan = page.session.write ? h("button", { on: { click: () => planDialog(page, flags) } }, "Plan a replay…") : null;
  const rows = table({ label: "Events, newest first", key: (e) => e.id, link: (e) => to("event", e.id), columns: columns(at) });
  const foot = h("div.listfoot.dim");
  const strip = bars({ series: OUTCOMES, unit: "events", stepS: 3600, name: "Events by hour", compact: true, pick: (from, until) => page.go(to("inbox", "", withFlag(withFlag(flags, "since", from), "until", until))) });
  const counted = () => flags.filter(([name]) => name === "source" || name === "since" || name === "until");
  const hours = panel(page, { slot: "hours", class: "strip", wait: skeleton(1, "strip"), read: () => ["inbox.stats", [["by", "hour"], ...counted()]], settled: (error) => { hours.node.hidden = Boolean(error); },
    draw: (doc, body) => { if (!strip.node.isConnected) fill(body, strip.node); strip.show(ofHours(doc)); } });
  const list = panel(page, { slot: "main", class: "list", wait: skeleton(12), read: () => confirmed ? ["inbox.list", [["limit", "50"], ...flags]] : null, settled: said,
    draw: (doc, body) => {
      at.asOf = doc.as_of;
      if (!rows.node.isConnected) fill(body, rows.node, foot);
      rows.show(doc.items);
      ends(doc);
    } });

  /** a wrong filter leaves the list as it was */
  function said(error) {
    set(input, "aria-invalid", error ? "true" : null);
    list.node.classList.toggle("stale", Boolean(error));
    if (error) fill(says, failure(error)); else if (confirmed) fill(says);
    if (error && !rows.node.isConnected) fill(list.body);
  }
    function ends(doc) {
    cursor = doc.next_cursor ?? "";
    const n = rows.items.length;
    rows.node.hidden = !n;
    if (!n) {
      const newest = page.status.doc?.newest_event;
      return fill(foot, h("div.empty", h("p", flags.length ? ["Nothing matches ", h("code", printFilter(flags)), "."] : "No event arrived in the last 24 hours."),
        newest ? h("p.dim", "The newest event came ", ago(newest.received_at, undefined, " ago"), ` from ${newest.source}.`) : h("p.dim", "Send one: ", h("code", "webhookctl send stripe --wait")),
        h("p", flags.length ? h("a.button", { href: "#/inbox" }, "Clear the filter") : null, " ", h("a.button", { href: to("inbox", "", withFlag(flags, "since", "7d")) }, "Look at 7 days"))));
    }
    fill(foot, h("span", doc.truncated ? `${num(n)} newest, there are more` : `All ${num(n)}`, doc.uncounted_hours ? `; ${doc.uncounted_hours} hours are not counted` : ""), cursor ? h("button", { on: { click: older } }, "50 more") : null);
  }
  async function older() {
    try {
      const answer = await page.read("inbox.list", [["limit", "50"], ["after", cursor], ...flags]);
      rows.show([...rows.items, ...answer.doc.items]);
      ends(answer.doc);
    } catch (error) { said(error); }
  }
  function newer() {
    const n = fresh.size;
    news.hidden = !n;
    if (n) { fill(news, `${num(n)} new`, h("kbd", ".")); page.announce(`${n} new events`); }
  }
  function reload() { fresh.clear(); newer(); return list.load(); }

  function ask() {
    fill(says, h("div.failure.calm", h("p", h("strong", "This filter reads the request or the body of every event in its time range."), " A shorter range reads less: ", h("code", "since:1h")),
      h("p", h("button", { class: "primary", on: { click: () => { confirmed = true; fill(says); list.load(); } } }, "Read them"))));
  }
  function draw() {
    if (document.activeElement !== input) input.value = printFilter(flags);
    const only = flags.filter(([name]) => !["source", "since", "until"].includes(name));
    fill(views, VIEWS.map(([name, view]) => h("a", { href: to("inbox", "", [...view, ...counted()]), "aria-current": printFilter(only) === printFilter(view) ? "true" : null }, name)));
    fill(chips, flags.map(([name, value], i) => h("a.chip", { href: to("inbox", "", flags.filter((_, k) => k !== i)), "aria-label": `Remove ${name} ${value}` }, h("span.dim", `${name} `), value, h("span", { "aria-hidden": "true" }, "×"))));
    const what = flag(flags, "status") || flag(flags, "source");
    page.title(what ? `Inbox: ${what}` : "Inbox");
  }
    async function changed(change) {
    const known = rows.items.find((e) => e.id === change.id);
    if (!known) {
      if (change.change === "stored" || change.change === "quarantined") { fresh.set(change.id, change); newer(); }
      return;
    }
    rows.change({ ...known, status: change.status, attempt_count: Math.max(known.attempt_count, change.attempt), next_action: change.status === "done" ? { code: "none", text: "none" } : { code: "wait", text: capital(change.detail) } });
  }
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { const next = parseFilter(input.value); confirmed = true; if (printFilter(next) === printFilter(flags)) reload(); else page.go(to("inbox", "", next)); }
    if (event.key === "Escape") { input.value = printFilter(flags); input.blur(); }
  });
  /** @type {AbortController} */
  let following;
  function start() {
    following?.abort();
    following = new AbortController();
    page.signal.addEventListener("abort", () => following.abort());
    if (confirmed && !flag(flags, "until")) follow(flags.filter(([name]) => !NOT_A_CHANGE.has(name) && name !== "since" && name !== "status"), following.signal, changed);
  }
  fill(page.root, h("div.bar", h("div.search", h("label.vh", { for: "filter" }, "Filter"), input, h("kbd", { "aria-hidden": "true" }, "/")), news, plan), says, chips, views, hours.node, list.node);
  draw();
  if (!confirmed) ask();
  list.load();
  hours.load();
  start();
  page.liveText("1s");
  return {
    update(next) {
      flags = next.flags;
      if (!readsBodies(flags)) confirmed = true;
      draw(); reload(); hours.load(); start();
    },
    keys: [["/", "Filter", () => { input.focus(); input.select(); }], [".", "Show new events", reload], ...rowKeys(page.root), ...(plan ? [["p", "Plan a replay of what matches", () => plan.click()]] : [])],
  };
}
