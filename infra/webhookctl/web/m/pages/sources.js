// @ts-check
// Sources: is it them or us? Also one source, and the list of presets.
import { about } from "../api.js";
import { OUTCOMES, bars, ofHours, twinButton } from "../chart.js";
import { fill, h } from "../h.js";
import { empty, panel, skeleton } from "../panel.js";
import { flag, to } from "../route.js";
import { backKeys, rowKeys, table } from "../table.js";
import { age, ago, clock, command, copy, count, facts, num, span, state, when, words } from "../words.js";

function list(page) {
  const at = { asOf: "" };
  const rows = table({ label: "Sources", key: (s) => s.source, link: (s) => to("source", s.source), columns: [
    ["Source", "w-source", (s) => h("a.go", { href: to("source", s.source) }, s.source)], ["Health", "w-state", (s) => state(s.paused ? "paused" : s.health)], ["Last event", "w-age n", (s) => ago(s.last_event_at, at.asOf)], ["24 hours", "w-n n p1", (s) => count(s.last_24h)],
    ["Open", "w-n n p2", (s) => count(s.open)], ["Dead", "w-n n p1", (s) => s.dead_letters.count ? h("b.bad", count(s.dead_letters)) : "0"], ["Preset", "w-state p3", (s) => s.preset], ["Proves", "w-n p3", (s) => s.proves], ["Note", "w-next p2", (s) => s.note ?? (s.rotation ? "a secret rotates" : "")]] });
  const box = panel(page, { slot: "main", wait: skeleton(8), read: () => ["sources.list", []], draw: (doc, body) => {
    at.asOf = doc.as_of;
    if (!doc.items.length) return void fill(body, empty("There are no sources.", "A source is one provider's webhooks: an address, a secret, and actions.", command("webhookctl sources add stripe")));
    if (!rows.node.isConnected) fill(body, rows.node);
    rows.show([...doc.items].sort((a, b) => Number(a.health === "ok") - Number(b.health === "ok")));
  } });
  fill(page.root, h("p.lead.dim", "Where webhooks come from. ", h("a", { href: "#/presets" }, "All presets")), box.node);
  box.load();
  page.live(15, () => box.load());
  return { keys: rowKeys(page.root) };
}

/** a destination with its circuit breaker */
const breaker = (d) => h("tr", h("td", d.action), h("td.wrap", d.destination ?? "–"), h("td", d.breaker ? state(d.breaker) : "–", d.open_until ? h("div.dim", "probes at ", clock(d.open_until)) : null), h("td.n.p1", d.rate ? `${num(d.rate.per_s ?? d.rate)}/s` : "no limit"), h("td.p2", d.sign ?? "–"));
const secret = (s) => h("tr", h("td.mono", s.label), h("td", state(s.live ? "ok" : "paused", s.live ? "live" : "ended")), h("td.mono.p1", s.fingerprint), h("td.n", num(s.proved)), h("td.n", when(s.last_used_at)), h("td.p2", when(s.since)));
const small = (label, heads, rows) => h("div.tablebox", h("table.auto", { "aria-label": label }, h("thead", h("tr", heads.map(([t, c]) => h("th", { scope: "col", class: c || null }, t)))), h("tbody", rows)));

function one(page, name) {
  page.heading(name);
  page.title(name);
  const chart = bars({ series: OUTCOMES, unit: "events", stepS: 3600, height: 140, name: "Events by hour" });
  const hours = panel(page, { title: "Last 24 hours", slot: "hours", actions: twinButton(chart), wait: skeleton(1, "chart"), read: () => ["inbox.stats", [["by", "hour"], ["source", name]]], draw: (doc, body) => { if (!chart.node.isConnected) fill(body, chart.node); chart.show(ofHours(doc)); } });
  const endpoint = panel(page, { title: "Subscription at the provider", slot: "endpoint", wait: skeleton(1), read: () => ["endpoint.show", []], draw: (doc, body) => {
    const e = doc.items.find((i) => i.source === name);
    fill(body, e ? facts([["State", state(e.health)], ["Since", when(e.since)], ["Checked", when(e.checked_at)], ["Missing types", e.missing_events?.length ? e.missing_events.join(", ") : null], ["Note", e.note]]) : h("p.dim", "Not monitored: the source has no [source.endpoint]."));
  } });
  const box = panel(page, { slot: "main", wait: skeleton(5, "tall"), read: () => ["sources.show", about("sources.show", name)], draw: (doc, body) => {
    const o = doc.outage;
    fill(body, h("section", { class: `next ${doc.paused ? "hold" : doc.health === "ok" ? "ok" : doc.health === "failing" ? "bad" : "warn"}`, "aria-label": "Health" }, h("div", h("p.big", state(doc.paused ? "paused" : doc.health), doc.note ? h("span", ` ${doc.note}`) : null), h("p.dim", `${count(doc.last_24h)} events in 24 hours · ${count(doc.open)} open · `, h("a", { href: to("inbox", "", [["source", name], ["status", "dead_letter"]]) }, `${count(doc.dead_letters)} dead`), " · ", h("a", { href: to("quarantine", "", [["source", name]]) }, `${num(doc.refused_today)} rejected today`), ` · ${num(doc.found_by_sync)} found by the sync`)),
      h("div.do", h("a.button", { href: to("inbox", "", [["source", name]]) }, "Its events"))),
    h("section.panel", h("h2", "Address for the provider"), h("p.command", h("code.wrap", doc.url ?? doc.path), copy(() => doc.url ?? doc.path, "Copy", "Copy the address"))), hours.node,
    h("div.split.even", h("section.panel", h("h2", "Destinations"), doc.destinations.length ? small("Destinations", [["Action", ""], ["Destination", ""], ["Breaker", ""], ["Rate", "n p1"], ["Signed", "p2"]], doc.destinations.map(breaker)) : h("p.dim", doc.actions.length ? doc.actions.join(", ") : "Mitt only stores its events.")),
      h("section.panel", h("h2", "Secrets"), small("Secrets", [["Slot", ""], ["State", ""], ["Fingerprint", "p1"], ["Proved", "n"], ["Last used", "n"], ["Since", "p2"]], doc.secrets.map(secret)))),
    h("div.split.even", h("section.panel", h("h2", "How it is verified"), facts([["Preset", [h("a", { href: to("presets", "", [["q", doc.preset]]) }, doc.preset), doc.variant === "default" ? "" : `, ${doc.variant}`]], ["Signed", h("span.wrap", doc.signed)], ["Proves", doc.proves], ["Same event by", doc.dedupe_by], ["Time window", doc.window], ["Provider retries", doc.retries], ["Attempts", num(doc.attempts)], ["Kept from requests", doc.context ? words(doc.context.keep) : null]])),
      h("section.panel", h("h2", "How long it can be down"), h("p", h("b", o.longest_s ? span(o.longest_s) : o.any ? "Any outage can lose events" : "Unknown")), h("ul.plain.dim", o.why.map((w) => h("li", w))),
        doc.silence ? facts([["Last webhook", doc.silence.last_webhook_at ? `${age(doc.silence.last_webhook_at)} ago` : "never"], ["Usually every", doc.silence.usually_s ? span(doc.silence.usually_s) : null], ["Quiet for", doc.silence.silent_s ? h("b.warn", span(doc.silence.silent_s)) : null]]) : null, (doc.advice ?? []).map((a) => h("p.warn", typeof a === "string" ? a : a.text ?? JSON.stringify(a))), endpoint.node)));
    endpoint.load();
  } });
  fill(page.root, box.node);
  box.load();
  hours.load();
  page.live(15, () => box.load());
  return { keys: backKeys(() => page.go("#/sources")) };
}

function presets(page, route) {
  const input = h("input", { id: "find", autocomplete: "off", spellcheck: "false", placeholder: "stripe", value: flag(route.flags, "q") });
  const rows = table({ label: "Presets", key: (p) => p.preset, columns: [["Preset", "w-source", (p) => h("b", p.preset)], ["Provider", "w-source p1", (p) => p.name], ["Signature", "w-type", (p) => p.scheme], ["Proves", "w-state p1", (p) => p.proves], ["Same event by", "w-next p2", (p) => p.dedupe_key], ["Checked", "w-n n p3", (p) => p.checked]] });
  /** @type {any[]} */
  let all = [];
  const draw = () => { const q = input.value.trim().toLowerCase(); rows.show(all.filter((p) => `${p.preset} ${p.name} ${p.aliases}`.toLowerCase().includes(q))); };
  input.addEventListener("input", draw);
  const box = panel(page, { slot: "main", wait: skeleton(12), read: () => ["sources.presets", []], draw: (doc, body) => { all = doc.items; fill(body, rows.node); draw(); } });
  fill(page.root, h("div.bar", h("div.search", h("label.vh", { for: "find" }, "Find a preset"), input)), box.node);
  box.load();
  return { keys: [["/", "Find", () => input.focus()]] };
}
export const open = (page, route) => route.page === "presets" ? presets(page, route) : route.id ? one(page, route.id) : list(page);
