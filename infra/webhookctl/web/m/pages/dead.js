// @ts-check
// Dead letters: how many different errors are there?
import { about } from "../api.js";
import { bars, twinButton } from "../chart.js";
import { fill, h } from "../h.js";
import { empty, panel, skeleton } from "../panel.js";
import { to } from "../route.js";
import { backKeys, rowKeys, table } from "../table.js";
import { ago, command, copy, facts, num, plural, short, state, when, words } from "../words.js";
import { planDialog } from "../write.js";

/** what a replay would do */
const replay = (r) => [["safe", ""], ["guarded", "warn"], ["unknown", "bad"], ["discarded", "dim"], ["erased", "dim"]].filter(([name]) => r[name]).map(([name, tone], i) => [i ? " · " : "", h("span", { class: tone }, `${name} ${num(r[name])}`)]);

function list(page) {
  const at = { asOf: "" };
  const rows = table({ label: "Dead letters by error", key: (g) => g.error, link: (g) => to("dead", g.error), columns: [
    ["Events", "w-n n", (g) => h("b.bad", num(g.events))], ["Error", "w-type", (g) => h("a.go", { href: to("dead", g.error) }, g.message)],
    ["Fingerprint", "w-fp mono p2", (g) => g.error], ["Source", "w-source p1", (g) => g.sources.join(", ")],
    ["First", "w-time p3", (g) => when(g.first_at)], ["Last", "w-age n", (g) => ago(g.last_at, at.asOf)], ["A replay is", "w-replay p2", (g) => h("span", replay(g.replay))]] });
  const box = panel(page, { slot: "main", wait: skeleton(5), read: () => ["dlq.list", []], draw: (doc, body) => {
    at.asOf = doc.as_of;
    if (!doc.items.length) return void fill(body, empty("No dead letters.", "An event becomes a dead letter when its last attempt has failed. Mitt keeps it until you replay or discard it."));
    if (!rows.node.isConnected) fill(body, rows.node);
    rows.show(doc.items);
  } });
  fill(page.root, h("p.lead.dim", "Events whose attempts are used up, grouped by error. Errors that differ only in numbers and ids are the same."), box.node);
  box.load();
  page.live(10, () => box.load());
  return { keys: rowKeys(page.root) };
}

function one(page, fp) {
  page.heading("Error ", h("span.mono", fp));
  page.title(`Error ${fp}`);
  const chart = bars({ series: [{ name: "Dead letters", class: "bad" }], unit: "dead letters", stepS: 300, height: 140, name: "Dead letters in five minutes" });
  const counts = (map) => Object.entries(map ?? {}).map(([name, n]) => h("div", `${words(name)} `, h("b", num(/** @type {any} */ (n)))));
  const samples = panel(page, { title: "Events", slot: "samples", wait: skeleton(3), read: () => ["inbox.list", [["status", "dead_letter"], ["error", fp], ["limit", "5"]]], draw: (doc, body) => {
    const rows = table({ label: "Some of its events", key: (e) => e.id, link: (e) => to("event", e.id), columns: [["Age", "w-age n", (e) => ago(e.received_at, doc.as_of)], ["Event", "w-id", (e) => h("a.go.mono", { href: to("event", e.id) }, short(e.id))], ["Type", "w-type", (e) => e.type], ["Next", "w-next p2", (e) => e.next_action.text]] });
    fill(body, rows.node, h("p", h("a", { href: to("inbox", "", [["status", "dead_letter"], ["error", fp]]) }, "All of them in the inbox")));
    rows.show(doc.items);
  } });
  const box = panel(page, { slot: "main", wait: skeleton(4, "tall"), read: () => ["dlq.inspect", about("dlq.inspect", fp)], draw: (doc, body) => {
    const from = new Date(doc.histogram.from).getTime();
    const cmd = `webhookctl replay plan --status dead_letter --error ${doc.error.replace(/\W/g, "")}${doc.replay.guarded && !doc.replay.safe ? " --mode guarded" : ""}`;
    fill(body, h("section.next.bad", { "aria-label": "Next action" }, h("div", h("p.big", plural(doc.events, "dead letter"), doc.truncated ? " or more" : "", h("span.dim", ` next: ${doc.next_action}`)), h("p", doc.message)),
      h("div.do", page.session.write ? h("button", { on: { click: () => planDialog(page, [["status", "dead_letter"], ["error", fp]]) } }, "Plan a replay…") : null, command(cmd))),
    h("section.panel", h("header", h("h2", "When they died"), h("span.grow"), twinButton(chart)), chart.node),
    h("div.split.even", h("section.panel", h("h2", "What they share"), facts([["Sources", doc.sources.map((s) => h("div", h("a", { href: to("source", s) }, s)))], ["Types", counts(doc.types)], ["Reason", counts(doc.reasons)], ["Attempts", doc.attempts.least === doc.attempts.most ? num(doc.attempts.most) : `${doc.attempts.least} to ${doc.attempts.most}`], ["First", when(doc.first.at)], ["Last", when(doc.last.at)]])),
      h("section.panel", h("h2", "What a replay would do"), facts([["Effects", Object.entries(doc.effects).map(([name, n]) => h("div", state(name), " ", h("b", num(/** @type {any} */ (n)))))], ["Replay", replay(doc.replay)], ["Sample", h("span.command", h("code.wrap", doc.sample), copy(() => doc.sample))]]))), samples.node);
    chart.show(doc.histogram.counts.map((n, i) => ({ at: new Date(from + i * doc.histogram.bucket_s * 1000).toISOString(), parts: [n], counted: true })));
  } });
  fill(page.root, box.node);
  box.load();
  samples.load();
  return { keys: backKeys(() => page.go("#/dead")) };
}
export const open = (page, route) => route.id ? one(page, route.id) : list(page);
