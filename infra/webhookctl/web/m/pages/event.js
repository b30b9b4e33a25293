// @ts-check
// One event: what happened to it, whether the effect happened, and what to do.
import { about, bytes } from "../api.js";
import { view } from "../body.js";
import { fill, h } from "../h.js";
import { failure, panel, skeleton } from "../panel.js";
import { to } from "../route.js";
import { backKeys } from "../table.js";
import { timeline } from "../timeline.js";
import { ago, command, copy, facts, mark, num, plural, short, size, span, state, when, words } from "../words.js";
import { planDialog } from "../write.js";

const PROVEN = new Map(Object.entries({
  body: "The signature covers the whole body.", fields: "The signature covers some fields: the id and the amount, not the rest.", origin: "The sender is known; the body is not signed.",
  token: "Only that the sender knows the address: any program that knows it could have sent this.", nothing: "Nothing: no signature was checked.",
}));
const FINAL = new Set(["done", "dead_letter", "quarantined"]);
const TONE = new Map([["none", "dim"], ["wait", "dim"], ["auto_retry", "warn"], ["reclaim", "warn"], ["retry_safe", "bad"], ["replay", "bad"], ["retry_guarded", "bad"], ["check_downstream", "bad"], ["fix_secret", "hold"], ["decide", "hold"], ["paused", "hold"]]);
function next(doc, page) {
  const { code, text } = doc.next_action;
  const nothing = code === "none" && doc.status === "done";
  const open = doc.side_effects.filter((e) => e.state !== "committed");
  const effects = !doc.side_effects.length ? "" : open.length ? open.map((e) => `${e.name}: side effect ${words(e.state)}`).join(" · ") : doc.side_effects.length === 1 ? "The side effect happened once" : `All ${doc.side_effects.length} side effects happened`;
  return h("section", { class: `next ${nothing ? "ok" : TONE.get(code) ?? "dim"}`, "aria-label": "Next action" },
    h("div", h("p.big", nothing ? [mark("circle", "ok"), "Done, nothing to do"] : [h("span.dim", "Next "), text]),
      h("p.dim", doc.last_error ? [nothing ? "Last error: " : "", h(nothing ? "span" : "b", doc.last_error.text)] : null, doc.last_error && effects ? " · " : "", effects)),
    doc.next_action.command ? h("div.do", page.session.write && /^webhookctl replay plan/.test(doc.next_action.command) ? h("button", { on: { click: () => planDialog(page, [["id", doc.id]]) } }, "Plan a replay…") : null, command(doc.next_action.command)) : null);
}

const effectsOf = (doc) => doc.side_effects.length ? h("table", { "aria-label": "Side effects" }, h("thead", h("tr", ["Effect", "State", "Idempotency key"].map((t) => h("th", { scope: "col" }, t)))),
  h("tbody", doc.side_effects.map((e) => h("tr", h("td", e.name), h("td", state(e.state)), h("td", h("span.command", h("code.cut", e.key), copy(() => e.key, "Copy", "Copy key")), e.keyed ? null : h("span.dim", " not sent to the destination")))))) : h("p.dim", "This event has no side effects yet.");

function answersOf(doc) {
  if (!doc.answers?.length) return null;
  return [h("h3", "What the destinations answered"), h("table", { "aria-label": "Answers of destinations" }, h("thead", h("tr", [["Try", "n"], ["Effect", ""], ["Answer", ""], ["After", "n"], ["Text", "p2"]].map(([t, c]) => h("th", { scope: "col", class: c }, t)))),
    h("tbody", doc.answers.map((a) => h("tr", h("td.n", num(a.attempt)), h("td", a.effect), h("td", h("b", { class: a.status === null ? "bad" : "warn" }, a.status === null ? "no answer" : String(a.status))), h("td.n", span(a.took_ms / 1000)),
      h("td.p2.dim", a.text ?? (a.text_hidden ? "kept; webhookctl inbox inspect --reveal shows it" : "no text was kept"))))))];
}

const about_ = (doc) => facts([
  ["Source", h("a", { href: to("source", doc.source) }, doc.source)], ["Type", doc.type], ["Received", [when(doc.received_at, true), h("span.dim", ` by ${words(doc.via)}`)]],
  ["Provider's id", h("span.mono.cut", doc.dedupe_key)], ["Account", doc.account ? [doc.account.value, h("span.dim", doc.account.signed ? " signed" : " not signed")] : null],
  ["Attempts", `${doc.attempt_count} of ${doc.max_attempts}`], ["Lease", doc.lease ? `${doc.lease.owner}, ${doc.lease.expired ? `ended ${span(doc.lease.expired_for_s)} ago` : `${span(doc.lease.left_s)} left`}` : null],
  ["Error", doc.last_error ? [h("a.mono", { href: to("dead", doc.last_error.fingerprint) }, doc.last_error.fingerprint), doc.last_error.retryable ? "" : " not retryable"] : null],
  ["Also arrived", doc.also_seen.length ? doc.also_seen.map((s) => h("div", `by ${words(s.via)}, ${span(Math.abs(s.later_s))} ${s.later_s < 0 ? "earlier" : "later"}`)) : null],
  ["Replays", doc.replays.length ? doc.replays.map((r) => h("div", h("a.mono", { href: to("plan", r.plan) }, r.plan), h("span.dim", ` ${r.by ?? ""} ${r.reason ? `“${r.reason}”` : ""}`))) : null],
  ["Superseded by", doc.superseded ? h("a", { href: to("event", doc.superseded_by ?? "") }, short(doc.superseded_by ?? "")) : null], ["Sources version", doc.sources_version],
  ["Trial", doc.trial ? `${plural(doc.trial.requests, "request")}, ${doc.trial.accepted} accepted` : null],
]);
function proof(doc, page) {
  const box = h("div");
  const button = h("button", { class: "small", on: { click: async () => {
    try {
      const { doc: v } = await page.read("verify", about("verify", doc.id));
      fill(box, h("p", h("b", v.verdict)), facts([["Signed text", h("code", v.signed_string?.template)], ["Header", v.header], ["Signature", h("code", (v.signatures ?? []).join(" "))],
        ...(v.secrets_tried ?? []).map((s) => [s.name, [h("code", s.fingerprint), h("span", { class: s.matches ? "ok" : "dim" }, s.matches ? " matches" : " does not match")]]), ["Near miss", v.near_miss]]));
    } catch (error) { fill(box, failure(error)); }
  } } }, "Explain");
  return h("div", h("p", PROVEN.get(doc.proven) ?? doc.proven), h("p.dim", doc.secret ? ["with secret ", h("code", doc.secret), " "] : null, button), box);
}
function bodyOf(doc, page) {
  const box = h("div");
  /** @type {Uint8Array | null} */
  let data = null;
  const show = async (how) => {
    for (const b of modes.children) b.setAttribute("aria-pressed", String(b.textContent?.toLowerCase() === how));
    try {
      data ??= new Uint8Array(await bytes(doc.id));
      fill(box, data.length ? view(data, how) : h("p.dim", "The body is empty."));
    } catch (error) { fill(box, failure(error)); }
  };
  const modes = h("div.segments", { role: "group", "aria-label": "How the body is shown" }, ["Pretty", "Exact", "Hex"].map((how) => h("button", { "aria-pressed": "false", on: { click: () => show(/** @type {any} */ (how.toLowerCase())) } }, how)));
  const other = h("input", { id: "other", class: "mono", placeholder: "evt_…", autocomplete: "off", spellcheck: "false" });
  const diff = async () => {
    try {
      const { doc: d } = await page.read("inbox.diff", [["a", doc.id], ["b", other.value.trim()]]);
      fill(box, d.same_bytes ? h("p", "The bytes are the same.") : h("table", { "aria-label": "Differences" }, h("thead", h("tr", ["Path", "This event", "The other"].map((t) => h("th", { scope: "col" }, t)))),
        h("tbody", d.changes.map((c) => h("tr", h("td.mono", c.path), h("td.mono", c.from ?? "–"), h("td.mono", c.to ?? "–"))))), (d.also ?? []).map((a) => h("p.dim", String(a))));
    } catch (error) { fill(box, failure(error)); }
  };
  const save = async () => {
    try {
      data ??= new Uint8Array(await bytes(doc.id));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([/** @type {any} */ (data)], { type: "application/octet-stream" }));
      link.download = `${doc.id.replace(/\W/g, "")}.bin`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    } catch (error) { fill(box, failure(error)); }
  };
  const gone = doc.body && doc.body.bytes === null;
  const facts_ = h("p.dim.bodyfacts", doc.body ? [size(doc.body.bytes), ` · ${doc.body.content_type ?? "no content type"} · sha256 `, h("code", { title: doc.body.sha256 }, doc.body.sha256.slice(0, 12)), " "] : "The body is no longer kept. Its hash stays.");
  const section = h("section.panel", h("header", h("h2", "Body"), facts_, h("span.grow"), gone ? null : modes), box,
    h("div.row.bodyrow", h("label", { for: "other", class: "dim" }, "Compare with"), other, h("button", { class: "small", on: { click: diff } }, "Diff"), h("span.grow"), h("button", { class: "small", on: { click: save } }, "Download"), copy(() => `webhookctl inbox body ${doc.id}`, "Copy command", "Copy command: the body")));
  return { section, toggle: () => show(data && modes.children[0].getAttribute("aria-pressed") === "true" ? "exact" : "pretty") };
}

function headersOf(doc) {
  const r = doc.request;
  if (!r?.kept) return h("p.dim", r?.error ?? "The request was not kept.");
  const all = Object.entries(r.headers ?? {});
  return h("details.headers", h("summary", `${r.method} ${r.path}${r.query ? `?${r.query}` : ""}`, h("span.dim", ` ${plural(all.length, "header")} kept${r.headers_dropped ? `, ${r.headers_dropped} dropped` : ""}`)), facts(all.map(([k, v]) => [h("span.mono", k), h("span.mono.wrap", v)]), "lines"));
}

export function open(page, route) {
  const id = route.id;
  page.heading(h("span.mono", short(id)));
  page.title(short(id));
  let drawnFor = "";
  let body = /** @type {any} */ (null);
  const top = h("div"), drawn = h("div"), left = h("div"), right = h("div");
  const event = panel(page, { slot: "main", class: "event", wait: skeleton(6, "tall"), read: () => ["inbox.inspect", about("inbox.inspect", id)],
    draw: (doc, root, answer) => {
      if (top.parentNode !== root) fill(root, top, drawn, h("div.split.even", left, right));
      const same = JSON.stringify(doc);
      page.heading(h("span.mono", short(doc.id)), " ", state(doc.status));
      fill(heading, h("b", doc.type), h("span.dim", doc.source, " · ", ago(doc.received_at, answer.at, " ago")), copy(() => doc.id, "Copy id"));
      if (same === drawnFor) return;
      if (drawnFor) page.announce(`Status: ${words(doc.status)}`);
      drawnFor = same;
      page.title(`${doc.type}, ${words(doc.status)}`);
      fill(top, next(doc, page));
      const line = timeline(doc, answer.at.getTime());
      fill(drawn, h("section.panel", h("header", h("h2", "Timeline"), h("span.dim", "distances are logarithmic")), line.node));
      fill(left, h("section.panel", h("h2", "Side effects"), effectsOf(doc), answersOf(doc)));
      fill(right, h("section.panel", h("h2", "What was proven"), proof(doc, page)), h("section.panel", h("h2", "Facts"), about_(doc)));
      if (!body) { body = bodyOf(doc, page); root.append(body.section, h("section.panel", h("h2", "Request"), headersOf(doc))); }
      if (FINAL.has(doc.status)) page.liveText(null);
    } });
  const heading = h("div.subhead");
  fill(page.root, heading, event.node);
  event.load();
  page.live(2, () => (event.doc && FINAL.has(event.doc.status) ? null : event.load()));
  return { keys: [...backKeys(() => history.back()), ["b", "Body: pretty, exact", () => body?.toggle()]] };
}
