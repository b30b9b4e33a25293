// One event: what happened to it, whether the effect happened, and what to do.
import { view } from "../body.js";
import { about, ago, button, bytes, command, copy, facts, failure, fill, grid, h, mark, neighbours, next,
  note, num, oneKeys, panel, plural, read, section, short, size, sourceLink, span, state, statusOf, to, waits,
  when, words } from "../kit.js";
import { timeline } from "../timeline.js";
import { explain } from "../verify.js";
import { decideButtons, planButton } from "../write.js";

const PROVEN = {
  body: "The signature covers the whole body.",
  fields: "The signature covers some fields: the id and the amount, not the rest.",
  origin: "The sender is known; the body is not signed.", nothing: "Nothing: no signature was checked.",
  token: "Only that the sender knows the address: any program that knows it could have sent this.",
};
const FINAL = ["done", "dead_letter", "quarantined"];
const TONE = { auto_retry: "warn", reclaim: "warn", retry_safe: "bad", replay: "bad",
  retry_guarded: "bad", check_downstream: "bad", fix_secret: "hold", decide: "hold", approve: "hold", paused: "hold" };
const eventLink = (id) => h("a.mono", { href: to("event", id) }, short(id));
const safely = (box, run) => async () => { try { await run(); } catch (error) { fill(box, failure(error)); } };

function nextOf(doc, page, again) {
  const { code, text, command: line } = doc.next_action, effects = doc.side_effects,
    decides = code === "decide" || doc.hold;
  const nothing = code === "none" && doc.status === "done", open = effects.filter((e) => e.state !== "committed");
  const said = !effects.length ? "" : open.length
    ? open.map((e) => `${e.name}: side effect ${words(e.state)}`).join(" · ")
    : effects.length === 1 ? "The side effect happened once" : `All ${effects.length} side effects happened`;
  const error = doc.last_error;
  const plans = line?.startsWith("webhookctl replay plan");
  return next(nothing ? "ok" : TONE[code] ?? "dim", "Next action",
    nothing ? [mark("circle", "ok"), "Done, nothing to do"] : [h("span.dim", "Next "), text],
    [error ? [nothing ? "Last error: " : "", h(nothing ? "span" : "b", error.text)] : null, error && said ? " · " : "",
      said],
    decides && page.session.write ? decideButtons(doc, again) : null,
    plans ? planButton(page, () => [["id", doc.id]], /guarded/.test(line) ? "guarded" : "safe") : null,
    command(doc.hold ? `webhookctl hold approve ${doc.id} -m "…"` : line),
    decides && !line ? command(`webhookctl quarantine release ${doc.id}`) : null);
}

/** What the event waits for. The values need the right to read bodies. */
function holdOf({ id, hold }, page) {
  const box = hold && panel(page, { slot: "hold", read: () => about("hold.show", id), draw: (doc, body) =>
    fill(body, h("div.split.even",
      section("Waits for an approval", waits(doc)),
      section("Hold", facts([["Held", when(doc.held_at)], ["Expires", when(doc.expires_at)],
        ["Hold", h("code", doc.hold)], ["Plan", h("code.cut", { title: doc.plan }, doc.plan)]])))) });
  box?.load();
  return { id: hold?.id, node: box?.node };
}

const effectsOf = (doc) => doc.side_effects.length ? grid("Side effects", [["Effect"], ["State"], ["Idempotency key"]],
  doc.side_effects.map((e) => [e.name, [state(e.state), h("span.dim.foreign", e.note)], [
    h("span.command", h("code", { title: e.key }, `${e.key.slice(0, 16)}…`), copy(() => e.key, "Copy", "Copy key")),
    e.keyed ? null : note("not sent to the destination")]])) : note("This event has no side effects yet.");

const answersOf = (doc) => !doc.answers?.length ? null : [h("h3", "What the destinations answered"),
  grid("Answers of destinations", [["Try", "n"], ["Effect"], ["Answer"], ["After", "n"], ["Text", "p2"]],
    doc.answers.map((a) =>
    [num(a.attempt), a.effect, h(`b.${a.status === null ? "bad" : "warn"}`, a.status === null ? "no answer"
      : String(a.status)),
      span(a.took_ms / 1000), h("span.dim.foreign", a.text ?? (a.text_hidden
        ? "kept; webhookctl inbox inspect --reveal shows it" : "no text was kept"))]))];

const factsOf = (doc, { account, lease, repeats, last_error: error } = doc) => facts([
  ["Source", sourceLink(doc.source)], ["Type", doc.type],
  ["Received", [when(doc.received_at, true), h("span.dim", ` by ${words(doc.via)}`)]],
  ["Provider's id", h("span.mono.cut.foreign", doc.dedupe_key)],
  ["Account", account && [h("span.foreign", account.value), h("span.dim", account.signed ? " signed" : " not signed")]],
  ["Attempts", `${doc.attempt_count} of ${doc.max_attempts}`],
  ["Lease", lease && [lease.owner, lease.expired ? `, ended ${span(lease.expired_for_s)} ago`
    : `, ${span(lease.left_s)} left`]],
  ["Error", error && [h("a.mono", { href: to("dead", error.fingerprint) }, error.fingerprint),
    error.retryable ? "" : " not retryable"]],
  ["Also arrived", doc.also_seen.length > 0 && doc.also_seen.map((s) =>
    h("div", `by ${words(s.via)}, ${span(Math.abs(s.later_s))} ${s.later_s < 0 ? "earlier" : "later"}`))],
  ["Repeats", repeats.verdict !== "none" && [words(repeats.verdict), h("span.dim",
    ["resent", "copied", "repeated"].map((kind) => repeats[kind] ? ` · ${repeats[kind]} ${kind}` : ""))]],
  ["Replays", doc.replays.length > 0 && doc.replays.map((r) => h("div",
    h("a.mono", { href: to("plan", r.plan) }, r.plan),
    h("span.dim", ` ${r.by ?? ""} ${r.reason ? `“${r.reason}”` : ""}`)))],
  ["Superseded by", doc.superseded_by && eventLink(doc.superseded_by)], ["Sources version", doc.sources_version],
  ["Trial", doc.trial && `${plural(doc.trial.requests, "request")}, ${doc.trial.accepted} accepted`],
]);

const proof = (doc) => [h("p", PROVEN[doc.proven] ?? doc.proven,
  doc.secret ? [" With secret ", h("code", doc.secret), "."] : null), explain(doc.id)];

async function diff(box, a, b) {
  const { doc } = await read("inbox.diff", [["a", a], ["b", b]]);
  fill(box, doc.same_bytes ? h("p", "The bytes of both bodies are the same.") : grid("Differences of the bodies",
    [["Path", "mono"], ["This event", "mono"], ["The other", "mono"]], doc.changes.map((c) =>
      [c.path, ...[c.from, c.to].map((side) => h("span.foreign", side ?? "–"))])),
  (doc.also ?? []).map((also) => note(String(also))));
}

/** The event with the same id, which the history names if it is known. */
function otherOf(doc) {
  const named = doc.timeline.map((m) => m.what === "quarantined" && /, of (\S.*)$/.exec(m.detail)?.[1]).find(Boolean);
  const other = doc.conflicts_with ?? named;
  if (doc.status !== "quarantined" || !other) return null;
  const box = h("div"), changes = h("div");
  safely(box, async () => {
    const theirs = (await read(...about("inbox.inspect", other))).doc;
    const row = (name, of) => [name, of(doc), of(theirs)];
    fill(box, grid("This event and the other", [[""], ["This event"], ["The other"]], [
      row("Event", (e) => eventLink(e.id)), row("Status", (e) => state(e.status)), row("Received",
        (e) => when(e.received_at)),
      row("Type", (e) => e.type), row("Proven", (e) => words(e.proven)), row("Body", (e) => e.body?.bytes
        ? size(e.body.bytes) : "–"),
      row("sha256", (e) => h("code", e.body?.sha256?.slice(0, 12) ?? "–"))]), changes);
    await safely(changes, () => diff(changes, doc.id, theirs.id))();
  })();
  return section("The other event with this id", box);
}

function bodyOf(doc) {
  const box = h("div");
  let data = null, how = "";
  const load = async () => data ??= await bytes(doc.id);
  const show = (next) => safely(box, async () => {
    how = next;
    for (const b of modes.children) b.setAttribute("aria-pressed", String(b.textContent.toLowerCase() === how));
    await load();
    fill(box, data.length ? view(data, how) : note("The body is empty."));
  })();
  const modes = h("div.segments", { role: "group", "aria-label": "How the body is shown" }, ["Pretty", "Exact",
    "Hex"].map((name) =>
    button(name, () => show(name.toLowerCase()), "", { "aria-pressed": "false" })));
  const other = h("input.mono", { id: "other", placeholder: "evt_…" });
  const save = safely(box, async () => {
    await load();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([data], { type: "application/octet-stream" }));
    link.download = `${doc.id.replace(/\W/g, "")}.bin`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  const body = doc.body, kept = body && body.bytes !== null;
  const what = kept ? [size(body.bytes), ` · ${body.content_type ?? "no content type"} · sha256 `,
    h("code", { title: body.sha256 }, body.sha256.slice(0, 12))]
    : "The body is no longer kept. Its hash stays.";
  const node = h("section.panel", h("header", h("h2", "Body"), h("p.dim.small", what), h("span.grow"),
    kept ? [h("kbd", "b"), modes] : null), box,
    h("div.row.bodyrow", h("label.dim", { for: "other" }, "Compare with"), other,
      button("Diff", safely(box, () => diff(box, doc.id, other.value.trim())), ".small"), h("span.grow"),
      button("Download", save, ".small"), h("code", `webhookctl inbox body ${short(doc.id)}…`),
      copy(() => `webhookctl inbox body ${doc.id}`, "Copy", "Copy command: the body")));
  return { node, toggle: () => show(how === "pretty" ? "exact" : "pretty") };
}

function headersOf(doc) {
  const r = doc.request;
  if (!r?.kept) return note(r?.error ?? "The request was not kept.");
  const all = Object.entries(r.headers ?? {});
  return h("details.headers", h("summary", `${r.method} ${r.path}`,
    r.query ? h("span.foreign", `?${r.query}`) : null, h("span.dim",
    ` ${plural(all.length, "header")} kept${r.headers_dropped ? `, ${r.headers_dropped} dropped` : ""}`)),
  facts(all.map(([k, v]) => [h("span.mono", k), h("span.mono.wrap.foreign", v)]), ".lines"));
}

export function open(page, route) {
  page.heading(h("span.mono", short(route.id)));
  let drawn = "", known = "", body = null, hold = /** @type {any} */ ({});
  const head = h("div.subhead"), top = h("div"), rest = h("div");
  const event = panel(page, { wait: [6, "tall"], read: () => about("inbox.inspect", route.id), draw: (doc, root,
    answer) => {
    if (top.parentNode !== root) fill(root, top, rest);
    const status = statusOf(doc);
    page.heading([h("span.mono", short(doc.id)), " ", state(status)], `${doc.type}, ${words(status)}`);
    fill(head, h("b", doc.type), h("span.dim", doc.source, " · ", ago(doc.received_at, answer.at, " ago")),
      copy(() => doc.id, "Copy id"),
      h("span.grow"), neighbours());
    if (FINAL.includes(doc.status)) page.liveText(null);
    const timeless = JSON.stringify({ ...doc, cost: 0, next_action: 0 }), same = timeless + doc.next_action.text;
    // While only a time passes, a button keeps the focus.
    if (same === drawn || timeless === known && top.contains(document.activeElement)) return;
    known = timeless;
    if (doc.hold?.id !== hold.id) hold = holdOf(doc, page);
    if (drawn) page.announce(`Status: ${words(status)}`);
    drawn = same;
    fill(top, nextOf(doc, page, event.load), hold.node, otherOf(doc),
      h("section.panel", h("header", h("h2", "Timeline"), note("distances are logarithmic")),
        timeline(doc, answer.at.getTime())),
      h("div.split.even", section("Side effects", effectsOf(doc), answersOf(doc)),
        h("div", section("What was proven", proof(doc)), section("Facts", factsOf(doc)))));
    if (!body) { body = bodyOf(doc); fill(rest, body.node, section("Request", headersOf(doc))); }
  } });
  fill(page.root, head, event.node);
  event.load();
  page.live(2, () => (event.doc && FINAL.includes(event.doc.status) ? null : event.load()));
  return { keys: [["b", "Body: pretty, exact", () => body?.toggle()], ...oneKeys("#/inbox")] };
}
