// @ts-check
// Quarantine: is this an attack, a wrong secret, or a bug?
import { about } from "../api.js";
import { fill, h } from "../h.js";
import { empty, failure, panel, skeleton } from "../panel.js";
import { flag, to } from "../route.js";
import { backKeys, rowKeys, table } from "../table.js";
import { ago, command, facts, num, short, size, when, words } from "../words.js";

function list(page, route) {
  const source = flag(route.flags, "source");
  const of = /** @type {import("../api.js").Flags} */ (source ? [["source", source]] : []);
  const at = { asOf: "" };
  const rows = table({ label: "Rejected requests by source and reason", key: (g) => `${g.source} ${g.reason}`, link: (g) => to("quarantine", g.id), columns: [
    ["Requests", "w-n n", (g) => h("b", num(g.requests))], ["Source", "w-source", (g) => g.source], ["Why", "w-type", (g) => h("a.go", { href: to("quarantine", g.id) }, g.what)],
    ["Finding", "w-next p1", (g) => h("span", { class: Object.keys(g.matches).length ? "warn" : "" }, g.finding)], ["Released", "w-n n p3", (g) => num(g.released)], ["Newest", "w-age n", (g) => ago(g.newest_at, at.asOf)]] });
  const rejected = panel(page, { title: "Rejected requests", slot: "main", wait: skeleton(4), read: () => ["quarantine.list", of], draw: (doc, body) => {
    at.asOf = doc.as_of;
    if (!doc.items.length) return void fill(body, empty("Every signature matched."));
    const fix = doc.items.find((g) => Object.keys(g.matches).length);
    fill(body, rows.node, fix ? h("p", "Some match a secret that is in use now: ", command(`webhookctl quarantine reverify -s ${fix.source} --dry-run`)) : null);
    rows.show(doc.items);
  } });
  const events = table({ label: "Quarantined events", key: (e) => e.id, link: (e) => to("event", e.id), columns: [["Age", "w-age n", (e) => ago(e.received_at, at.asOf)], ["Event", "w-id", (e) => h("a.go.mono", { href: to("event", e.id) }, short(e.id))], ["Source", "w-source p2", (e) => e.source], ["Type", "w-type", (e) => e.type], ["Reason", "w-next p2", (e) => words(e.error_fingerprint ?? "")]] });
  const kept = panel(page, { title: "Quarantined events", slot: "events", wait: skeleton(2), read: () => ["inbox.list", [["status", "quarantined"], ["limit", "50"], ...of]], draw: (doc, body) => {
    fill(body, doc.items.length ? events.node : h("p.dim", "No event is quarantined. Mitt quarantines a signed event that it cannot trust, such as a known id with another body."));
    events.show(doc.items);
  } });
  fill(page.root, h("p.lead.dim", "Requests whose signature did not match, and events that wait for a decision. Nothing here runs an action."), rejected.node, kept.node);
  rejected.load();
  kept.load();
  return { keys: rowKeys(page.root) };
}

/** the steps of a verification */
const steps = (v) => h("ol.history.runs", [["Signature found", v.signatures_in_header ? `${v.signatures_in_header} in ${v.header}: ${v.signatures.join(" ")}` : `none in ${v.header}`], ["Signed text", v.signed_string ? `${v.signed_string.template}, ${num(v.signed_string.bytes)} bytes` : "–"], ["Time", v.timestamp ? v.timestamp.text ?? JSON.stringify(v.timestamp) : "no time is signed"],
  ...(v.secrets_tried ?? []).map((s) => [`Secret ${s.name}`, `${s.fingerprint} gives ${s.gives}: ${s.matches ? "matches" : "does not match"}`]), ["Near miss", v.near_miss ?? "none"], ["Verdict", v.verdict]].map(([name, text]) => h("li", h("span.dim", name), h("span.wrap", text))));

function one(page, id) {
  page.heading("Rejected request ", h("span.mono", short(id)));
  page.title(`Rejected ${short(id)}`);
  const proof = h("div", h("button", { on: { click: async () => {
    try { fill(proof, steps((await page.read("verify", about("verify", id))).doc)); } catch (error) { fill(proof, failure(error)); }
  } } }, "Verify it step by step"), h("p.dim", "This reads the secrets of the source, and never shows them."));
  const box = panel(page, { slot: "main", wait: skeleton(5, "tall"), read: () => ["quarantine.inspect", about("quarantine.inspect", id)], draw: (doc, body) => void fill(body,
    h("section.next.hold", { "aria-label": "Next action" }, h("div", h("p.big", doc.what, h("span.dim", ` ${doc.finding}`)), h("p.dim", "Next: ", doc.next_action)), h("div.do", command(`webhookctl verify ${doc.id}`))),
    h("div.split.even", h("section.panel", h("h2", "Request"), facts([["Source", h("a", { href: to("source", doc.source) }, doc.source)], ["Received", when(doc.received_at)], ["Request", h("span.mono.wrap", `${doc.method} ${doc.url}`)], ["From", h("span.mono", doc.address)], ["Body", doc.body ? `${size(doc.body.bytes)}, ${doc.body.content_type ?? "no content type"}` : "–"], ["Event", doc.event ? h("a", { href: to("event", doc.event) }, short(doc.event)) : null]])),
      h("section.panel", h("h2", "Why it does not match"), proof)),
    h("section.panel", h("h2", "Headers"), facts(doc.headers.map((x) => [h("span.mono", x.name), h("span.mono.wrap", x.value)]), "lines"))) });
  fill(page.root, box.node);
  box.load();
  return { keys: backKeys(() => page.go("#/quarantine")) };
}
export const open = (page, route) => route.id ? one(page, route.id) : list(page, route);
