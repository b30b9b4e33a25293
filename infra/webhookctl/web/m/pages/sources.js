// Sources: is it them or us? Also one source, and the list of presets.
import { hourly, sparks } from "../chart.js";
import { about, age, ago, clock, command, copy, count, empty, facts, fill, flag, grid, h, lead, listing, next, note,
  num, oneKeys, panel, section, source, sourceLink, span, state, table, to, when, words } from "../kit.js";
import { pauseButton } from "../write.js";

function list(page) {
  const lines = sparks(page);
  const box = listing(page, { wait: [8], read: () => ["sources.list"], label: "Sources", key: (s) => s.source,
    link: (s) => source(s.source),
    order: (a, b) => Number(a.health === "ok") - Number(b.health === "ok"),
    none: empty("There are no sources.", "A source is one provider's webhooks: an address, a secret, and actions.",
      command("webhookctl sources add stripe")),
    columns: (at) => [["Source", "w-source", (s) => sourceLink(s.source, ".go")],
      ["Health", "w-state", (s) => state(s.paused ? "paused" : s.health)], ["Last event", "w-age.n",
        (s) => ago(s.last_event_at, at.asOf)],
      ["24 hours", "w-n.n.p1", (s) => count(s.last_24h)], ["By hour, last", "w-spark.p2", (s) => lines.cell(s.source)],
      ["Open", "w-n.n.p2", (s) => count(s.open)],
      ["Dead", "w-n.n.p1", (s) => s.dead_letters.count ? h("b.bad", count(s.dead_letters)) : "0"],
      ["Preset", "w-state.p3", (s) => s.preset],
      ["Proves", "w-n.p3", (s) => s.proves], ["Note", "w-next.p2", (s) => s.note ?? (s.rotation ? "a secret rotates"
        : "")]] });
  fill(page.root, lead("Where webhooks come from. ", h("a", { href: "#/presets" }, "All presets")), box.node);
  box.load().then(() => lines.load(box.names(), box.redraw));
  page.live(15, box.load);
}

const breaker = (d) => [d.action, h("span.wrap", d.destination ?? "–"), [d.breaker ? state(d.breaker) : "–",
  d.open_until ? note("probes at ", clock(d.open_until)) : null],
  d.rate ? `${num(d.rate.per_s ?? d.rate)}/s` : "no limit", d.sign ?? "–"];
const secret = (s) => [h("code", s.label), state(s.live ? "ok" : "paused", s.live ? "live" : "ended"),
  h("code", s.fingerprint), num(s.proved), when(s.last_used_at), when(s.since)];

/** How the source is, and what to do. */
function health(page, doc, again) {
  const tone = doc.paused ? "hold" : { ok: "ok", failing: "bad" }[doc.health] ?? "warn";
  const link = (text, page, flags) => h("a", { href: to(page, "", [["source", doc.source], ...flags]) }, text);
  return next(tone, "Health", [state(doc.paused ? "paused" : doc.health), doc.note ? ` ${doc.note}` : ""],
    [`${count(doc.last_24h)} events in 24 hours · ${count(doc.open)} open · `, link(`${count(doc.dead_letters)} dead`,
      "inbox", [["status", "dead_letter"]]),
      " · ", link(`${num(doc.refused_today)} rejected today`, "quarantine", []),
      ` · ${num(doc.found_by_sync)} found by the sync`],
    h("a.button", { href: to("inbox", "", [["source", doc.source]]) }, "Its events"), page.session.write
      ? pauseButton(doc, again) : null,
    command(`webhookctl sources ${doc.paused ? "resume" : "pause"} ${doc.source}`));
}

function one(page, name) {
  page.heading(name);
  const hours = hourly(page, panel, { title: "Last 24 hours", height: 140, flags: () => [["source", name]] });
  const endpoint = panel(page, { title: "Subscription at the provider", slot: "endpoint", wait: [1],
    read: () => ["endpoint.show"], draw: (doc, body) => {
    const e = doc.items.find((i) => i.source === name);
    fill(body, e ? facts([["State", state(e.health)], ["Since", when(e.since)], ["Checked", when(e.checked_at)],
      ["Missing types", e.missing_events?.length > 0 && e.missing_events.join(", ")], ["Note", e.note]])
        : note("Not monitored: the source has no [source.endpoint]."));
  } });
  const box = panel(page, { wait: [5, "tall"], read: () => about("sources.show", name), draw: (doc, body) => {
    const o = doc.outage, s = doc.silence;
    fill(body, health(page, doc, () => box.load()),
      section("Address for the provider", h("p.command", h("code.wrap", doc.url ?? doc.path),
        copy(() => doc.url ?? doc.path, "Copy", "Copy the address"))), hours.node,
      h("div.split.even", section("Destinations", doc.destinations.length ? grid("Destinations",
        [["Action"], ["Destination"], ["Breaker"], ["Rate", "n.p1"],
        ["Signed", "p2"]], doc.destinations.map(breaker)) : note(doc.actions.length ? doc.actions.join(", ")
          : "Mitt only stores its events.")),
      section("Secrets", !doc.secrets ? note("Not read: this needs the right to read secrets.") : grid("Secrets",
        [["Slot"], ["State"], ["Fingerprint", "p1"], ["Proved", "n"],
        ["Last used", "n"], ["Since", "p2"]], doc.secrets.map(secret)))),
      h("div.split.even", section("How it is verified",
        facts([["Preset", [h("a", { href: to("presets", "", [["q", doc.preset]]) }, doc.preset),
        doc.variant === "default" ? "" : `, ${doc.variant}`]], ["Signed", doc.signed], ["Proves", doc.proves],
        ["Same event by", doc.dedupe_by],
      ["Time window", doc.window], ["Provider retries", doc.retries], ["Attempts", num(doc.attempts)],
      ["Kept from requests", doc.context && words(doc.context.keep)]])),
      section("How long it can be down", h("p", h("b", o.longest_s ? span(o.longest_s) : o.any
        ? "Any outage can lose events" : "Unknown")),
        h("ul.plain.dim", o.why.map((why) => h("li", why))),
        s ? facts([["Last webhook", s.last_webhook_at ? `${age(s.last_webhook_at)} ago` : "never"],
          ["Usually every", s.usually_s && span(s.usually_s)], ["Quiet for", s.silent_s && h("b.warn",
            span(s.silent_s))]]) : null,
        (doc.advice ?? []).map((a) => h("p.warn", typeof a === "string" ? a : a.text ?? JSON.stringify(a))),
        endpoint.node)));
  } });
  fill(page.root, box.node);
  [box, hours, endpoint].forEach((it) => it.load());
  page.live(15, box.load);
  return { keys: oneKeys("#/sources") };
}

function presets(page, route) {
  let all = [];
  const draw = () => {
    const q = input.value.trim().toLowerCase();
    rows.show(all.filter((p) => `${p.preset} ${p.name} ${p.aliases}`.toLowerCase().includes(q)));
  };
  const input = h("input", { id: "find", placeholder: "stripe",
    value: flag(route.flags, "q"), on: { input: draw } });
  const rows = table({ label: "Presets", key: (p) => p.preset, columns: [["Preset", "w-source",
    (p) => h("b", p.preset)], ["Provider", "w-source.p1", (p) => p.name],
    ["Signature", "", (p) => p.scheme], ["Proves", "w-state.p1", (p) => p.proves], ["Same event by", "w-next.p2",
      (p) => p.dedupe_key], ["Checked", "w-n.n.p3", (p) => p.checked]] });
  const box = panel(page, { wait: [12], read: () => ["sources.presets"], draw: (doc, body) =>
    { all = doc.items; fill(body, rows.node); draw(); } });
  fill(page.root, h("div.bar", h("div.search", h("label.vh", { for: "find" }, "Find a preset"), input)), box.node);
  box.load();
  return { keys: [["/", "Find", () => input.focus()]] };
}
export const open = (page, route) => route.page === "presets" ? presets(page, route) : route.id ? one(page, route.id)
  : list(page);
