// Plans: what a replay will do, how far it is, and who began it.
import { about, ago, clock, command, empty, eventColumns, eventPage, facts, fill, h, lead, listing, next, note, num,
  oneKeys, panel, plural, section, state, to, when, words } from "../kit.js";
import { applyButton, cancelButton, stopButton } from "../write.js";

function list(page) {
  const box = listing(page, { wait: [5], read: () => ["replay.log", [["limit", "50"]]], label: "Plans",
    key: (p) => p.plan, link: (p) => to("plan", p.plan),
    none: empty("No plan in the last 90 days.",
      "A plan freezes a selection and says what a replay would do to each event. It changes nothing.",
      command("webhookctl replay plan --status dead_letter")), columns: (at) => [
      ["Planned", "w-age.n", (p) => ago(p.planned_at, at.asOf)], ["State", "w-state", (p) => state(p.state)],
      ["Plan", "w-fp", (p) => h("a.go.mono", { href: to("plan", p.plan) }, p.plan)], ["Events", "w-n.n",
        (p) => num(p.events)],
      ["Outcome", "p1", (p) => p.outcome], ["By", "w-source.p2", (p) => p.by], ["Reason", "w-next.p3",
        (p) => p.reason]] });
  fill(page.root, lead("Who replayed which events, and why."), box.node);
  box.load();
  page.live(10, box.load);
}

/** A bar with its parts and their numbers. @param {[string, number, string][]} parts */
function meter(label, of, parts) {
  let x = 0;
  const rects = parts.map(([, n, tone]) => {
    const width = of ? n / of * 1000 : 0, rect = h(`rect.${tone}`, { x, width, height: 8 });
    x += width;
    return rect;
  });
  return h("div.meter", h("span", label), h("svg.meterbar", { viewBox: "0 0 1000 8", preserveAspectRatio: "none" },
    h("rect.rest", { width: 1000, height: 8 }), rects),
  h("p.legend", parts.map(([name, n, tone]) => h(`span.key.${tone}`, `${name} `, h("b", num(n))))));
}

const chips = (selection) => h("div.chips", Object.entries(selection).flatMap(([name, value]) =>
  [value].flat().map((one) => h("span.chip", h("span.dim", `${name} `), String(one)))));

const OUTCOMES = { waiting: "waits", done: "done", failed: "failed again",
  changed: "left out, changed since the plan" };

const fate = (e) => OUTCOMES[e.outcome] ? [OUTCOMES[e.outcome], e.error ? `: ${e.error}` : null]
  : e.effects.length ? e.effects.map((f) => h("div", `${f.name}: `, f.action === "runs"
  ? ["again, with key ", h("code", f.key.slice(0, 12))] : h("span.dim", "skipped, happened already"))) : h("span.dim",
    "its actions run");

function one(page, id) {
  page.heading(["Plan ", h("span.mono", id)]);
  const events = listing(page, { title: "Events that run again", slot: "events", wait: [3],
    link: eventPage, none: note("No event runs."), read: () => about("replay.show", id,
      [["events", ""]]), columns: (at) => [
      ...eventColumns(at), ["Type", "p1", (e) => e.type ?? "–"], ["State", "w-status",
        (e) => e.status ? state(e.status) : "–"],
      ["What the replay does", "w-next", fate]], after: (doc) => doc.truncated
        ? note(`The first ${doc.items.length} of the plan.`) : null });
  const left = listing(page, { title: "Left out", slot: "left", wait: [2], label: "Events that do not run",
    link: eventPage, none: note("Every selected event runs."), read: () => about("replay.show", id,
      [["left-out", ""]]),
    columns: (at) => [
      ...eventColumns(at), ["Source", "w-source.p2", (e) => e.source], ["Why", "", (e) => words(e.why)]] });
  const box = panel(page, { wait: [5, "tall"], read: () => about("replay.show", id), draw: (doc, body, answer) => {
    const e = doc.events, o = doc.outcome, out = Object.entries(e.left_out), planned = doc.state === "planned";
    const active = ["running", "applying"].includes(doc.state), again = () => { box.load(); events.load(); };
    const tone = doc.state === "stopped" ? "bad" : o?.failed ? "warn" : active ? "info" : doc.state === "finished"
      ? "ok" : "dim";
    fill(body, doc.planned.through === "mcp" ? h("p.failure.calm", h("b", `Proposed by an agent, for: ${doc.reason}`))
      : null,
      next(tone, "State", [state(doc.state), ` ${plural(e.planned, "event")} of ${num(e.selected)} to run again`],
        ["by ", h("b", doc.planned.by), ", ", ago(doc.planned.at, answer.at, " ago"), ": ", doc.reason,
          planned ? [" · may be applied until ", h("time", { datetime: doc.good_until }, clock(doc.good_until))]
            : null],
        page.session.write ? [planned || doc.state === "stopped" ? applyButton(doc, again) : null,
          active ? stopButton(doc, again) : null,
          planned ? cancelButton(doc, again) : null] : null,
          command(`webhookctl replay ${planned ? "apply" : "status"} ${doc.id}`)),
      doc.warning ? h("p.warn", doc.warning) : null,
      section("What happens to the selection", h("div.meters",
        meter("Selection", e.selected, [["run again", e.planned, "info"], ["left out", out.reduce((n, [, v]) => n + v,
          0), "hold"]]),
        meter("Queued", e.planned, [["queued", doc.queued, "info"], ["not yet", Math.max(0, e.planned - doc.queued),
          "none"]]),
        o ? meter("Outcome", e.planned, [["done", o.done, "ok"], ["failed again", o.failed, "bad"],
          ["waiting", o.waiting, "info"],
          ["changed since the plan", o.changed, "hold"]]) : null)),
      h("div.split.even", section("Plan", facts([["Selection", chips(doc.selection)], ["Mode", doc.mode],
        ["Effects that happened", `${plural(e.committed, "event")} skip what is done`],
        ["New effects", doc.new_effects ? h("b.bad", "repeats effects that happened") : "none"],
        ["Left out", out.length > 0 && out.map(([why, n]) => h("div", `${words(why)} `, h("b", num(n))))],
        ["Set", h("code.cut", { title: e.sha256 }, e.sha256.slice(0, 16))]])),
      section("Runs", doc.runs.length ? facts(doc.runs.map((r) => [[when(r.from), "–", r.to ? when(r.to) : "now"],
        [`${r.by}, ${r.rate}/s`,
        r.canary ? h("span.dim", ` · canary ${r.canary.done} of ${r.canary.tried} done`) : null,
        r.end ? ` · ${words(r.end)}` : ""]])) : note("Not applied yet."),
      doc.failures?.length ? [h("h3", "Failed again"), facts(doc.failures.map((f) => [plural(f.events, "event"),
        [f.text, " ",
        h("a.mono", { href: to("dead", f.fingerprint) }, f.fingerprint)]]))] : null)), events.node, left.node);
    page.liveText(active ? "2s" : "");
  } });
  fill(page.root, box.node);
  [box, events, left].forEach((it) => it.load());
  page.live(2, () => (["running", "applying", "planned"].includes(box.doc?.state) ? box.load() : null));
  return { keys: oneKeys("#/plans") };
}
export const open = (page, route) => route.page === "plan" && route.id ? one(page, route.id) : list(page);
