// The frame around every page: who and where, the menu, the page, and the command that answers the same in a terminal.
import * as approvals from "./pages/approvals.js";
import * as coverage from "./pages/coverage.js";
import * as dead from "./pages/dead.js";
import * as doctor from "./pages/doctor.js";
import * as drift from "./pages/drift.js";
import * as event from "./pages/event.js";
import * as flow from "./pages/flow.js";
import * as inbox from "./pages/inbox.js";
import * as log from "./pages/log.js";
import * as plan from "./pages/plan.js";
import * as quarantine from "./pages/quarantine.js";
import * as sources from "./pages/sources.js";
import * as status from "./pages/status.js";
import * as keys from "./keys.js";
import { begun, button, clock, copy, failure, fill, h, hasToken, health, isUtc, mark, num, parse, plural, read,
  rowKeys, say, session, set, stored, switchZone, to } from "./kit.js";
import { every, live, toggleLive } from "./live.js";

/**
 * Each page: its module; the page of the menu and the name of those that are not in the menu.
 * @type {Map<string, [any, string?, string?]>}
 */
const PAGES = new Map(Object.entries({
  overview: [status], inbox: [inbox], dead: [dead], quarantine: [quarantine], approvals: [approvals], plans: [plan],
  sources: [sources], flow: [flow], sync: [coverage], drift: [drift], log: [log], doctor: [doctor],
  event: [event, "inbox", "Event"],
  plan: [plan, "plans", "Plan"], source: [sources, "sources", "Source"], presets: [sources, "sources", "Presets"],
}));
/** The codes of `status` that each page of the menu counts. */
const COUNTED = { dead: ["dead_letters"], quarantine: ["rejected", "quarantined"], approvals: ["held"],
  plans: ["plan_stopped"], drift: ["drift"] };

let here = null, me = null;
const answers = new Map();
/** The parts of index.html. */
const find = (what) => document.querySelector(what), shell = [...document.body.children];
const part = { where: find(".where"), facts: find(".facts2"), mode: find(".mode"), live: find(".live"),
  menu: find("nav"), banner: find(".banner"), heading: find("h1"), content: find(".content"), foot: find("footer"),
  says: find(".vh") };
/** The links of the menu: their pages, names and keys. */
const MENU = [...part.menu.children].map((link) => [parse(link.hash).page, link.textContent, link.dataset.key]);
for (const link of part.menu.children) link.append(h("span.badge"));

/** The next theme. first.js sets the stored one. */
function nextTheme() {
  const theme = { auto: "light", light: "dark" }[stored("theme") || "auto"] ?? "auto";
  stored("theme", theme);
  set(document.documentElement, "data-theme", theme);
  announce(`Theme: ${theme}`);
}

let saidAt = 0;
/** At most one message in two seconds. */
function announce(text) {
  const wait = Math.max(0, saidAt + 2000 - Date.now());
  saidAt = Date.now() + wait;
  setTimeout(() => say(part.says, text), wait);
}

/** The document of `status`, which every page shares. */
const shared = Object.assign(new EventTarget(), {
  doc: null, error: null, answer: null,
  async load() {
    try {
      shared.answer = await read("status");
      shared.doc = shared.answer.doc;
      shared.error = null;
    } catch (error) { shared.error = error; }
    drawMenu();
    shared.dispatchEvent(new Event("change"));
  },
});

function drawMenu() {
  const items = shared.doc?.items ?? [], now = here?.route.page;
  for (const link of part.menu.children) {
    const name = parse(link.hash).page, first = name === "overview", loud = (i) => i.severity !== "note";
    const mine = items.filter((i) => first ? loud(i) : COUNTED[name]?.includes(i.code));
    const n = first ? mine.length : mine.reduce((sum, i) => sum + (i.count ?? 1), 0);
    say(link.lastChild, n ? num(n) : "");
    const tone = mine.some((i) => i.severity === "bad") ? "bad" : mine.some(loud) ? "warn" : "dim";
    set(link.lastChild, "class", `badge ${tone}`);
    set(link, "aria-current", name === (PAGES.get(now)?.[1] ?? now) ? "page" : null);
  }
}

/** The read that answers the page, and that live mode repeats. */
const main = () => answers.get("main") ?? [...answers.values()][0];

function drawFoot() {
  const first = main(), all = [...answers.values()], sum = (what) => all.reduce((n, a) => n + a[what], 0);
  if (!first) return fill(part.foot, h("span.dim", "…"));
  const open = part.foot.querySelector("details")?.open ?? false;
  fill(part.foot, h("span.dim.same", "same in a terminal:"), h("code.main", first.command), copy(() => first.command,
    "Copy", "Copy the command of this page"),
    h("kbd.same", "c"), h("details.reads", { open },
      h("summary", `${plural(all.length, "read")} · ${plural(sum("calls"), "call")} · ${num(sum("units"))} read units`),
      h("ul", all.map((a) => h("li", h("code", a.command),
        h("span.dim", `${a.calls} calls, ${num(a.units)} read units`))))));
}

/** @param {any} [text] null for a page that does not read again */
function drawLive(text = "") {
  part.live.hidden = text === null;
  fill(part.live, h(live.on ? "span.dot.on" : "span.dot", { "aria-hidden": "true" }), live.on
    ? `live${text ? ` ${text}` : ""}` : "paused");
  set(part.live, "aria-pressed", String(live.on));
}

function context(abort) {
  const title = (text) => { document.title = `${text} · ${me.context}`; };
  return {
    session: me, signal: abort.signal, status: shared, announce, title, go: (address) => { location.hash = address; },
      root: part.content,
    read: (name, flags = []) => read(name, flags, abort.signal),
    note: (slot, answer) => { if (!abort.signal.aborted) { answers.set(slot, answer); drawFoot(); } },
    heading: (content, text) => { fill(part.heading, content); title(text ?? part.heading.textContent); },
    live: (seconds, tick) => {
      // At most 50 calls in a second, however many calls the read needs.
      const slow = () => Math.max(seconds, Math.ceil((main()?.calls ?? 0) / 50));
      drawLive(`${slow()}s`);
      every(slow, abort.signal, async () => {
        await tick();
        if (!abort.signal.aborted && !part.live.hidden) drawLive(`${slow()}s`);
      });
    },
    liveText: drawLive,
  };
}

function show() {
  const route = parse(location.hash), found = PAGES.get(route.page);
  document.body.classList.remove("menuopen");
  if (here?.view.update && here.route.page === route.page && here.route.id === route.id) {
    here.route = route;
    return here.view.update(route);
  }
  here?.abort.abort();
  answers.clear();
  const abort = new AbortController(), page = context(abort),
    name = found?.[2] ?? MENU.find(([name]) => name === route.page)?.[1] ?? "Not found";
  fill(part.content);
  drawLive(null);
  page.heading(name);
  here = { view: {}, route, abort };
  drawMenu();
  drawFoot();
  scrollTo(0, 0);
  if (!found) fill(part.content, h("p", "There is no such page. ", h("a", { href: "#/" }, "Overview")));
  else try { here.view = found[0].open(page, route) ?? {}; } catch (error) { fill(part.content, failure(error)); }
  part.heading.focus({ preventScroll: true });
}

/** The keys of the page. A list also has the keys of its rows. */
function ownKeys() {
  const own = here?.view.keys ?? [];
  return own.some(([key]) => key === "j") ? own : [...own, ...rowKeys(part.content)];
}

function help() {
  const rows = (list) => h("dl.keys", list.map(([key, what]) =>
    h("div", h("dt", key.split(" ").map((k) => h("kbd", k))), h("dd", what))));
  const box = h("input", { type: "checkbox", id: "keyson", checked: keys.keysOn(),
    on: { change: () => stored("keys", box.checked ? "on" : "off") } });
  const dialog = h("dialog", { "aria-label": "Keys" }, h("h2", "Keys"), h("div.columns",
    rows(MENU.map(([, name, key]) => [`g ${key}`, name])),
    rows([...ownKeys(), ["c", "Copy the command of this page"], ["space", "Pause or continue live mode"],
      ["t", "Theme: auto, light, dark"],
      ["z", "Times in UTC or local"], ...(me?.private ? [["m", "Hold: show hidden text"]] : []), ["?", "This list"]])),
  h("p", h("label", { for: "keyson" }, box, " Single keys are on")), button("Close", () => dialog.close()));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function zone() {
  switchZone();
  announce(isUtc() ? "Times in UTC" : "Local times");
  if (here) { here.view = {}; show(); }
}
/** With `--private`, hides what senders sent. */
const hide = (on) => set(document.documentElement, "data-private", me?.private && on);
addEventListener("keyup", (e) => { if (e.key === "m") hide(true); });
addEventListener("blur", () => hide(true));
/** @type {keys.Keys} */
const common = [["?", "Keys", help], ["t", "Theme", nextTheme], [" ", "Live", toggleLive],
  ["c", "Copy", () => part.foot.querySelector("button")?.click()],
  ["z", "Zone", zone], ["m", "Show", () => hide(false)],
  ...MENU.map(([page, name, key]) => /** @type {keys.Keys[0]} */ ([`g ${key}`, name,
    () => { location.hash = to(page); }]))];

/** Fills the header with the facts of the session. */
function build() {
  const s = me, tone = s.protected ? "protected" : s.local ? "local" : "";
  if (!part.menu.isConnected) fill(document.body, shell);
  set(document.body, "class", tone ? `band ${tone}` : "");
  set(part.where, "class", `where ${tone}`);
  part.where.hidden = false;
  say(part.where, s.context);
  say(part.facts, s.local ? "this machine" : [s.region, s.account, s.protected && tone,
    s.who?.split("/").slice(-2).join("/")].filter(Boolean).join(" · "));
  say(part.mode, `read-${s.write ? "write" : "only"}${s.private ? ", private" : ""}`);
}

/** What stands instead of the pages while there is no session. */
function signIn(error) {
  here?.abort.abort();
  here = null;
  const box = h("input", { id: "code", on: { keydown: (e) => { if (e.key === "Enter") enter(); } } });
  const enter = async () => {
    const code = /code=([^&\s]+)/.exec(box.value)?.[1] ?? box.value.trim();
    try { start(await session(code)); } catch (next) { signIn(next); }
  };
  set(document.body, "class", "closed");
  document.title = "webhookctl: no session";
  fill(document.body, h("main.signin", h("h1", "This page has no session"), error && !error.gone ? failure(error)
    : null,
    h("p", error?.gone ? "webhookctl is not running. Start it with "
      : "Open the address that the terminal shows, or press o there. To start a console: ",
      h("code", "webhookctl console")),
    h("div.row", h("label", { for: "code" }, "Address or code"), box, button("Open", enter, ".primary"))));
}

function start(found) {
  me = found;
  hide(true);
  build();
  show();
  if (here?.route.page !== "overview") shared.load();
  begun.clear();
  every(() => 30, new AbortController().signal, () => (here?.route.page === "overview" ? null : shared.load()));
}

async function begin() {
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (code) history.replaceState(null, "", "/#/");
  if (!code && !hasToken()) return signIn(null);
  try { start(await session(code)); } catch (error) {
    // The same link again in a browser that has a session: go on with that session.
    if (code && hasToken()) try { return start(await session()); } catch { /* the session has ended too */ }
    signIn(error);
  }
}

addEventListener("hashchange", () => {
  if (location.hash.startsWith("#code=")) begin(); else if (me && part.menu.isConnected) show();
});
live.addEventListener("change", () => { if (!part.live.hidden) drawLive(); });
health.addEventListener("ended", () => signIn(null));
health.addEventListener("gone", () => {
  part.banner.hidden = false;
  fill(part.banner, mark("square", "bad"),
    `webhookctl has stopped. This is what it last knew, at ${clock(main()?.at ?? new Date())}.`);
});
health.addEventListener("back", () => { part.banner.hidden = true; });
for (const [what, run] of [[".menu", () => document.body.classList.toggle("menuopen")], [".live", toggleLive],
  [".theme", nextTheme], [".help", help],
  [".skip", (/** @type {any} */ e) => { e.preventDefault(); part.heading.focus(); }]]) {
  find(what).addEventListener("click", run);
}
keys.listen(() => [...ownKeys(), ...(me ? common : [])]);
begin();
