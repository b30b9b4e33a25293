// Dead letters: how many different errors are there?
import { bars } from "../chart.js";
import { about, ago, command, copy, empty, eventColumns, eventPage, facts, fill, h, lead, listing, next, num, oneKeys,
  panel, plural, section, sourceLink, state, to, when, words } from "../kit.js";
import { planButton } from "../write.js";

/** What a replay would do. */
const replay = (r) => [["safe", ""], ["guarded", "warn"], ["unknown", "bad"], ["discarded", "dim"], ["erased", "dim"]]
  .filter(([name]) => r[name]).map(([name, tone], i) => [i ? " · " : "", h(`span.${tone}`, `${name} ${num(r[name])}`)]);

function list(page) {
  const box = listing(page, { wait: [5], read: () => ["dlq.list"], label: "Dead letters by error",
    key: (g) => g.error, link: (g) => to("dead", g.error),
    none: empty("No dead letters.", "An event becomes a dead letter when its last attempt has failed. ",
      "Mitt keeps it until you replay or discard it."), columns: (at) => [
      ["Events", "w-n.n", (g) => h("b.bad", num(g.events))],
      ["Error", "", (g) => h("a.go", { href: to("dead", g.error) }, g.message)], ["Fingerprint", "w-fp.mono.p2",
        (g) => g.error],
      ["Source", "w-source.p1", (g) => g.sources.join(", ")], ["First", "w-time.p3", (g) => when(g.first_at)],
      ["Last", "w-age.n", (g) => ago(g.last_at, at.asOf)], ["A replay is", "w-replay.p2", (g) => replay(g.replay)]] });
  fill(page.root, lead("Events whose attempts are used up, grouped by error. ",
    "Errors that differ only in numbers and ids are the same."), box.node);
  box.load();
  page.live(10, box.load);
}

function one(page, fp) {
  page.heading(["Error ", h("span.mono", fp)]);
  const flags = [["status", "dead_letter"], ["error", fp]];
  const chart = bars({ name: "Dead letters in five minutes", series: [["Dead letters", "bad"]], unit: "dead letter",
    step: 3e5, height: 140 });
  const counts = (map) => Object.entries(map ?? {}).map(([name, n]) => h("div", `${words(name)} `, h("b", num(n))));
  const samples = listing(page, { title: "Events", slot: "samples", read: () => ["inbox.list",
    [...flags, ["limit", "5"]]],
    label: "Some of its events", link: eventPage, none: null, columns: (at) => [
      ...eventColumns(at), ["Type", "", (e) => e.type], ["Next", "w-next.p2", (e) => e.next_action.text]],
    after: () => h("p", h("a", { href: to("inbox", "", flags) }, "All of them in the inbox")) });
  const box = panel(page, { wait: [4, "tall"], read: () => about("dlq.inspect", fp), draw: (doc, body) => {
    const from = Date.parse(doc.histogram.from), guarded = doc.replay.guarded && !doc.replay.safe;
    const { least, most } = doc.attempts;
    fill(body, next("bad", "Next action", [plural(doc.events, "dead letter"), doc.truncated ? " or more" : "",
      h("span.dim", ` next: ${doc.next_action}`)], doc.message, planButton(page, () => flags, guarded ? "guarded"
        : "safe"),
    command("webhookctl replay plan --status dead_letter --error " + doc.error.replace(/\W/g, "") +
      (guarded ? " --mode guarded" : ""))),
    h("section.panel", h("header", h("h2.grow", "When they died"), chart.twinButton), chart.node),
    h("div.split.even", section("What they share", facts([
      ["Sources", doc.sources.map((s) => h("div", sourceLink(s)))], ["Types", counts(doc.types)],
      ["Reason", counts(doc.reasons)], ["Attempts", least === most ? num(most) : `${least} to ${most}`],
      ["First", when(doc.first.at)], ["Last", when(doc.last.at)]])),
    section("What a replay would do", facts([
      ["Effects", Object.entries(doc.effects).map(([name, n]) => h("div", state(name), " ", h("b", num(n))))],
      ["Replay", replay(doc.replay)], ["Sample", h("span.command", h("code.wrap", doc.sample),
        copy(() => doc.sample))]]))), samples.node);
    chart.show(doc.histogram.counts.map((n, i) => ({ at: from + i * doc.histogram.bucket_s * 1000, parts: [n] })));
  } });
  fill(page.root, box.node);
  box.load();
  samples.load();
  return { keys: oneKeys("#/dead") };
}
export const open = (page, route) => route.id ? one(page, route.id) : list(page);
