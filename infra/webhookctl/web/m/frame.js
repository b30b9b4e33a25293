// The frame around every page: who and where, the menu, the page, and the command that answers the same in a terminal.
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
import { button, clock, copy, failure, fill, h, hasToken, health, isUtc, mark, num, parse, plural, read, rowKeys, say,
  session, set, stored, switchZone, to } from "./kit.js";
import { every, live, toggleLive } from "./live.js";

/**
 * Each page: its name in the menu, its key, its module, and its page of the menu.
 * @type {Map<string, [string, string, any, string?]>}
 */
const PAGES = new Map(Object.entries({
  overview: ["Overview", "o", status], inbox: ["Inbox", "i", inbox], dead: ["Dead letters", "d", dead],
  quarantine: ["Quarantine", "q", quarantine], plans: ["Plans", "p", plan], sources: ["Sources", "s", sources],
  flow: ["Flow", "m", flow], sync: ["Sync", "f", coverage], drift: ["Drift", "r", drift], log: ["Log", "l", log],
  doctor: ["Doctor", "c", doctor], event: ["Event", "", event, "inbox"], plan: ["Plan", "", plan, "plans"],
  source: ["Source", "", sources, "sources"], presets: ["Presets", "", sources, "sources"],
}));
const MENU = [...PAGES].filter(([, [, key]]) => key);
/** The codes of `status` that each page of the menu counts. */
const COUNTED = { dead: ["dead_letters"], quarantine: ["rejected", "quarantined"],
  plans: ["plan_stopped"], drift: ["drift"] };

let here = null, me = null;
const answers = new Map(), part = {};

const theme = () => stored("theme") ?? "auto";
const drawTheme = () => set(document.documentElement, "data-theme", theme() === "auto" ? null : theme());
function nextTheme() {
  stored("theme", { auto: "light", light: "dark" }[theme()] ?? "auto");
  drawTheme();
  announce(`Theme: ${theme()}`);
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
    const name = link.dataset.page, first = name === "overview", loud = (i) => i.severity !== "note";
    const mine = items.filter((i) => first ? loud(i) : COUNTED[name]?.includes(i.code));
    const n = first ? mine.length : mine.reduce((sum, i) => sum + (i.count ?? 1), 0);
    say(link.lastChild, n ? num(n) : "");
    const tone = mine.some((i) => i.severity === "bad") ? "bad" : mine.some(loud) ? "warn" : "dim";
    set(link.lastChild, "class", `badge ${tone}`);
    set(link, "aria-current", name === (PAGES.get(now)?.[3] ?? now) ? "page" : null);
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
      h("summary", `${plural(all.length, "read")} · ${plural(sum("calls"), "call")} · ${num(sum("units"))} RU`),
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

/** What a page may use. */
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
  const abort = new AbortController(), page = context(abort), name = found?.[0] ?? "Not found";
  fill(part.content);
  drawLive(null);
  page.heading(name);
  here = { view: {}, route, abort };
  drawMenu();
  drawFoot();
  scrollTo(0, 0);
  if (!found) fill(part.content, h("p", "There is no such page. ", h("a", { href: "#/" }, "Overview")));
  else try { here.view = found[2].open(page, route) ?? {}; } catch (error) { fill(part.content, failure(error)); }
  part.heading.focus({ preventScroll: true });
}

/** The keys of the page. A list also has the keys of its rows. */
function ownKeys() {
  const own = here?.view.keys ?? [];
  return own.some(([key]) => key === "j") || !part.content ? own : [...own, ...rowKeys(part.content)];
}

function help() {
  const rows = (list) => h("dl.keys", list.map(([key, what]) =>
    h("div", h("dt", key.split(" ").map((k) => h("kbd", k))), h("dd", what))));
  const box = h("input", { type: "checkbox", id: "keyson", checked: keys.keysOn(),
    on: { change: () => stored("keys", box.checked ? "on" : "off") } });
  const dialog = h("dialog", { "aria-label": "Keys" }, h("h2", "Keys"), h("div.columns",
    rows(MENU.map(([, [name, key]]) => [`g ${key}`, name])),
    rows([...ownKeys(), ["c", "Copy the command of this page"], ["space", "Pause or continue live mode"],
      ["t", "Theme: auto, light, dark"],
      ["z", "Times in UTC or local"], ...(me.private ? [["m", "Hold: show hidden text"]] : []), ["?", "This list"]])),
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
  ...MENU.map(([page, [name, key]]) => /** @type {keys.Keys[0]} */ ([`g ${key}`, name,
    () => { location.hash = to(page); }]))];

const icon = (viewBox, ...paths) => h("svg", { viewBox }, paths);
function build() {
  const s = me, who = s.who?.split("/").slice(-2).join("/"), tone = s.protected ? "protected" : s.local ? "local" : "";
  const quiet = (label, text, click, kind = "", more = {}) => button(text, click, `.quiet${kind}`, { title: label,
    "aria-label": label, ...more });
  part.live = button("", toggleLive, ".quiet.live", { title: "Pause or continue live mode (space)" });
  part.menu = h("nav", { "aria-label": "Pages", id: "menu" }, MENU.map(([page, [name]]) =>
    h(`a.${page}`, { href: to(page), "data-page": page }, h("span", name), h("span.badge"))));
  part.heading = h("h1", { tabindex: -1 });
  part.content = h("div.content");
  part.banner = h("div.banner", { role: "status", hidden: true });
  part.foot = h("footer");
  part.says = h("div.vh", { "aria-live": "polite" });
  fill(document.body, h("a.skip", { href: "#main",
    on: { click: (e) => { e.preventDefault(); part.heading.focus(); } } }, "Skip to content"),
    h("header.top", quiet("Menu", icon("0 0 16 16", h("path", { d: "M2 4h12M2 8h12M2 12h12" })),
      () => document.body.classList.toggle("menuopen"), ".menu", { "aria-controls": "menu" }),
      h("a.brand", { href: "#/", "aria-label": "webhookctl, Overview" }, icon("0 0 32 32",
        h("rect", { width: 32, height: 32, rx: 7 }),
        h("path", { d: "M7 13v9a2 2 0 0 0 2 2h14a2 2 0 0 0 2-2v-9M16 6v11m-4.6-4.4L16 17l4.6-4.4" })),
        h("span", "webhookctl")),
      h(`span.where.${tone}`, h("b", s.context)),
      h("span.facts2.dim", [s.region, s.account, s.protected ? "protected" : null, who].filter(Boolean).join(" · ")),
      h("span.grow"), h("span.mode.dim", s.write ? "may write" : "read-only", s.private ? ", private" : ""),
      part.live,
      quiet("Theme: auto, light, dark (t)", "◐", nextTheme), quiet("Keys (?)", "?", help)),
    part.menu, h("main", { id: "main" }, part.banner, part.heading, part.content), part.foot, part.says);
  set(document.body, "class", tone ? `band ${tone}` : "");
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
  shared.load();
  every(() => 30, new AbortController().signal, () => (here?.route.page === "overview" ? null : shared.load()));
}

async function begin() {
  drawTheme();
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
  if (location.hash.startsWith("#code=")) begin(); else if (me && part.menu?.isConnected) show();
});
live.addEventListener("change", () => { if (part.live && !part.live.hidden) drawLive(); });
health.addEventListener("ended", () => signIn(null));
health.addEventListener("gone", () => {
  if (!part.banner?.isConnected) return;
  part.banner.hidden = false;
  fill(part.banner, mark("square", "bad"),
    `webhookctl has stopped. This is what it last knew, at ${clock(main()?.at ?? new Date())}.`);
});
health.addEventListener("back", () => { if (part.banner) part.banner.hidden = true; });
keys.listen(() => [...ownKeys(), ...(me ? common : [])]);
begin();
