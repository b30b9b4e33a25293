// Approvals: what waits for a decision, and until when?
import { about, ago, effect, empty, eventPage, failure, fill, flag, h, lead, left, listing, readBy,
  short } from "../kit.js";

export function open(page, route) {
  const named = flag(route.flags, "source"), values = new Map(), says = h("div");
  /** Reads the values that the rules of the first events read, once for each hold. */
  const look = (items) => items.slice(0, 20).filter((i) => i.read[0] && !values.has(i.hold)).forEach(async (i) => {
    values.set(i.hold, null);
    try {
      const answer = await page.read(...about("hold.show", i.id));
      page.note(i.id, answer);
      values.set(answer.doc.hold, answer.doc.read);
      box.redraw();
    } catch (error) { fill(says, failure(error)); }
  });
  const box = listing(page, { wait: [5], read: () => ["hold.list", named ? [["source", named]] : []],
    label: "Events that wait for an approval", link: eventPage,
    none: empty("No event waits for an approval.",
      "A rule of a source can hold an event until you approve or reject it."),
    columns: (at) => [["Expires in", "w-time", (i) => left(i.expires_at, at.asOf)],
      ["Would send", "", (i) => [h("a.go.wrap.foreign", { href: eventPage(i) }, i.summary),
        h("div.dim.wrap", `${effect(i)} · ${i.source}, ${i.type}`)]],
      ["Rule", "w-next.p1", (i) => [i.rule, h("div.dim.wrap", i.reason)]],
      ["The rule read", "w-next.p2", (i) => readBy(values.get(i.hold) ?? i.read.map((path) => ({ path })))],
      ["Event", "w-id.p4", (i) => h("span.mono", short(i.id))],
      ["Held", "w-age.n.p3", (i) => ago(i.held_at, at.asOf)]],
    after: (doc) => { look(doc.items); return null; } });
  fill(page.root, lead("Events that a rule holds until you approve or reject them. ",
    "When a hold expires, its event becomes a dead letter."), box.node, says);
  box.load();
  page.live(10, box.load);
}
