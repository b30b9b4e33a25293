// @ts-check
// Plans: what a replay will do, how far it is, and who began it.
import { about } from "../api.js";
import { fill, h } from "../h.js";
import { empty, panel, skeleton } from "../panel.js";
import { to } from "../route.js";
import { backKeys, rowKeys, table } from "../table.js";
import { ago, clock, command, facts, num, plural, short, state, when, words } from "../words.js";
import { applyDialog, endDialog } from "../write.js";

function list(page) {
  const at = { asOf: "" };
  const rows = table({ label: "Plans", key: (p) => p.plan, link: (p) => to("plan", p.plan), columns: [
    ["Planned", "w-age n", (p) => ago(p.planned_at, at.asOf)], ["State", "w-state", (p) => state(p.state)], ["Plan", "w-fp", (p) => h("a.go.mono", { href: to("plan", p.plan) }, p.plan)],
    ["Events", "w-n n", (p) => num(p.events)], ["Outcome", "w-type p1", (p) => p.outcome], ["By", "w-source p2", (p) => p.by], ["Reason", "w-next p3", (p) => p.reason]] });
  const box = panel(page, { slot: "main", wait: skeleton(5), read: () => ["replay.log", [["limit", "50"]]], draw: (doc, body) => {
    at.asOf = doc.as_of;
    if (!doc.items.length) return void fill(body, empty("No plan in the last 90 days.", "A plan freezes a selection and says what a replay would do to each event. It changes nothing.", command("webhookctl replay plan --status dead_letter")));
    if (!rows.node.isConnected) fill(body, rows.node);
    rows.show(doc.items);
  } });
  fill(page.root, h("p.lead.dim", "Who replayed which events, and why."), box.node);
  box.load();
  page.live(10, () => box.load());
  return { keys: rowKeys(page.root) };
}

/** A bar with its parts and their numbers. @param {string} label @param {number} of @param {[string, number, string][]} parts */
const meter = (label, of, parts) => h("div.meter", h("span.name", label),
  h("svg", { viewBox: "0 0 1000 8", preserveAspectRatio: "none", "aria-hidden": "true", class: "meterbar" }, h("rect.rest", { width: 1000, height: 8 }), parts.reduce((sum, [, n, tone]) => { const w = of ? n / of * 1000 : 0; sum.all.push(h("rect", { class: tone, x: sum.x, width: w, height: 8 })); sum.x += w; return sum; }, /** @type {any} */ ({ x: 0, all: [] })).all),
  h("span.legend", parts.map(([name, n, tone]) => h("span", { class: `key ${tone}` }, `${name} `, h("b", num(n))))));

const selection = (doc) => Object.entries(doc.selection).flatMap(([k, v]) => [v].flat().map((one) => h("span.chip", h("span.dim", `${k} `), String(one))));

function one(page, id) {
  page.heading("Plan ", h("span.mono", id));
  page.title(`Plan ${id}`);
  const left = panel(page, { title: "Left out", slot: "left", wait: skeleton(2), read: () => ["replay.show", about("replay.show", id, [["left-out", ""]])], draw: (doc, body) => {
    const rows = table({ label: "Events that do not run", key: (e) => e.id, link: (e) => to("event", e.id), columns: [["Event", "w-id", (e) => h("a.go.mono", { href: to("event", e.id) }, short(e.id))], ["Source", "w-source p2", (e) => e.source], ["Why", "w-type", (e) => words(e.why)], ["Age", "w-age n", (e) => ago(e.received_at, doc.as_of)]] });
    fill(body, doc.items.length ? rows.node : h("p.dim", "Every selected event runs."));
    rows.show(doc.items);
  } });
  const box = panel(page, { slot: "main", wait: skeleton(5, "tall"), read: () => ["replay.show", about("replay.show", id)], draw: (doc, body, answer) => {
    const e = doc.events, o = doc.outcome, out = Object.entries(e.left_out);
    const active = doc.state === "running" || doc.state === "applying";
    const outN = out.reduce((n, [, v]) => n + Number(v), 0);
    const again = () => box.load();
    const planned = doc.state === "planned";
    fill(body, doc.planned.through === "mcp" || doc.through === "mcp" ? h("p.failure.calm", h("strong", `Proposed by an agent, for: ${doc.reason}`)) : null,
      h("section", { class: `next ${doc.state === "stopped" ? "bad" : o?.failed ? "warn" : active ? "info" : doc.state === "finished" ? "ok" : "dim"}`, "aria-label": "State" }, h("div", h("p.big", state(doc.state), ` ${plural(e.planned, "event")} of ${num(e.selected)} to run again`), h("p.dim", "by ", h("b", doc.planned.by), ", ", ago(doc.planned.at, answer.at, " ago"), ": ", doc.reason, planned ? [" · may be applied until ", h("time", { datetime: doc.good_until }, clock(doc.good_until))] : null)),
        h("div.do", page.session.write ? [planned || doc.state === "stopped" ? h("button", { class: "primary", on: { click: () => applyDialog(doc, again) } }, "Apply…") : null, active ? h("button", { on: { click: () => endDialog(doc, "stop", again) } }, "Stop…") : null, planned ? h("button", { on: { click: () => endDialog(doc, "cancel", again) } }, "Cancel…") : null] : null, command(planned ? `webhookctl replay apply ${doc.id}` : `webhookctl replay status ${doc.id}`))),
      doc.warning ? h("p.warn", doc.warning) : null,
      h("section.panel", h("h2", "What happens to the selection"), h("div", { class: "meters" },
        meter("Selection", e.selected, [["run again", e.planned, "info"], ["left out", outN, "hold"]]), meter("Queued", e.planned, [["queued", doc.queued, "info"], ["not yet", Math.max(0, e.planned - doc.queued), "none"]]),
        o ? meter("Outcome", e.planned, [["done", o.done, "ok"], ["failed again", o.failed, "bad"], ["waiting", o.waiting, "info"], ["changed since the plan", o.changed, "hold"]]) : null)),
      h("div.split.even", h("section.panel", h("h2", "Plan"), facts([["Selection", h("div.chips", selection(doc))], ["Mode", doc.mode], ["Effects that happened", `${plural(e.committed, "event")} skip what is done`], ["New effects", doc.new_effects ? h("b.bad", "repeats effects that happened") : "none"], ["Left out", out.length ? out.map(([why, n]) => h("div", `${words(why)} `, h("b", num(Number(n))))) : null], ["Set", h("code.cut", { title: e.sha256 }, e.sha256.slice(0, 16))]])),
        h("section.panel", h("h2", "Runs"), doc.runs.length ? h("ol.history.runs", doc.runs.map((r) => h("li", h("span", when(r.from), "–", r.to ? when(r.to) : "now"), h("span", `${r.by}, ${r.rate}/s`, r.canary ? h("span.dim", ` · canary ${r.canary.done} of ${r.canary.tried} done`) : null, r.end ? ` · ${words(r.end)}` : "")))) : h("p.dim", "Not applied yet."),
          doc.failures?.length ? [h("h3", "Failed again"), facts(doc.failures.map((f) => [plural(f.events, "event"), [f.text, " ", h("a.mono", { href: to("dead", f.fingerprint) }, f.fingerprint)]]))] : null)), left.node);
    page.liveText(active ? "2s" : "");
  } });
  fill(page.root, box.node);
  box.load();
  left.load();
  page.live(2, () => (box.doc && ["running", "applying", "planned"].includes(box.doc.state) ? box.load() : null));
  return { keys: backKeys(() => page.go("#/plans")) };
}
export const open = (page, route) => route.page === "plan" && route.id ? one(page, route.id) : list(page);
