// Quarantine: is this an attack, a wrong secret, or a bug?
import { about, ago, command, empty, eventColumns, eventPage, facts, fill, flag, h, lead, listing, next, note, num,
  oneKeys, panel, section, short, size, source, sourceLink, to, when, words } from "../kit.js";
import { explain } from "../verify.js";
import { reverifyButton } from "../write.js";

const matching = (g) => Object.keys(g.matches).length > 0;

function list(page, route) {
  const named = flag(route.flags, "source"), of = named ? [["source", named]] : [];
  const rejected = listing(page, { title: "Rejected requests", label: "Rejected requests by source and reason",
    key: (g) => `${g.source} ${g.reason}`,
    link: (g) => to("quarantine", g.id), read: () => ["quarantine.list", of], none: empty("Every signature matched."),
    columns: (at) => [
      ["Requests", "w-n.n", (g) => h("b", num(g.requests))], ["Source", "w-source", (g) => g.source],
      ["Why", "", (g) => h("a.go", { href: to("quarantine", g.id) }, g.what)],
      ["Finding", "w-next.p1", (g) => h(matching(g) ? "span.warn" : "span", g.finding)],
      ["Released", "w-n.n.p3", (g) => num(g.released)], ["Newest", "w-age.n", (g) => ago(g.newest_at, at.asOf)]],
    after: (doc) => [...new Set(doc.items.filter(matching).map((g) => g.source))].map((name) => h("p.row",
      `Some of ${name} match a secret in use now: `,
      page.session.write ? reverifyButton(name, () => rejected.load()) : null,
      command(`webhookctl quarantine reverify -s ${name} --dry-run`))) });
  const kept = listing(page, { title: "Quarantined events", slot: "events", wait: [2],
    link: eventPage, read: () => ["inbox.list", [["status", "quarantined"], ["limit", "50"], ...of]],
    none: note("No event is quarantined. Mitt quarantines a signed event that it cannot trust, ",
      "such as a known id with another body."), columns: (at) => [
      ...eventColumns(at), ["Source", "w-source.p2", (e) => e.source], ["Type", "", (e) => e.type],
      ["Reason", "w-next.p2", (e) => words(e.error_fingerprint ?? "")]] });
  fill(page.root, lead("Requests whose signature did not match, and events that wait for a decision. ",
    "Nothing here runs an action."), rejected.node, kept.node);
  rejected.load();
  kept.load();
}

function one(page, id) {
  page.heading(["Rejected request ", h("span.mono", short(id))]);
  const box = panel(page, { wait: [5, "tall"], read: () => about("quarantine.inspect", id), draw: (doc, body) =>
    fill(body,
    next("hold", "Next action", [doc.what, h("span.dim", ` ${doc.finding}`)], ["Next: ", doc.next_action],
      command(`webhookctl verify ${doc.id}`)),
    h("div.split.even", section("Request", facts([["Source", sourceLink(doc.source)],
      ["Received", when(doc.received_at)],
      ["Request", h("span.mono.wrap.foreign", `${doc.method} ${doc.url}`)],
      ["From", h("span.mono.foreign", doc.address)],
      ["Body", doc.body ? `${size(doc.body.bytes)}, ${doc.body.content_type ?? "no content type"}` : "–"],
      ["Event", doc.event && h("a", { href: to("event", doc.event) }, short(doc.event))]])),
    section("Why it does not match", explain(id))),
    section("Headers", facts(doc.headers.map((x) => [h("span.mono", x.name), h("span.mono.wrap.foreign", x.value)]),
      ".lines"))) });
  fill(page.root, box.node);
  box.load();
  return { keys: oneKeys("#/quarantine") };
}
export const open = (page, route) => route.id ? one(page, route.id) : list(page, route);
