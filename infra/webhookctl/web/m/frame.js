// @ts-check
// The frame around every page: who and where, the menu, the page, and the command that answers the same in a terminal.
import * as api from "./api.js";
import { fill, h, say, set } from "./h.js";
import * as keys from "./keys.js";
import { every, live, setLive } from "./live.js";
import { failure } from "./panel.js";
import { go, parse, to } from "./route.js";
import { clock, copy, mark, num, plural, switchZone, isUtc } from "./words.js";
import * as status from "./pages/status.js";
import * as inbox from "./pages/inbox.js";
import * as event from "./pages/event.js";
import * as dead from "./pages/dead.js";
import * as plan from "./pages/plan.js";
import * as quarantine from "./pages/quarantine.js";
import * as coverage from "./pages/coverage.js";
import * as drift from "./pages/drift.js";
import * as sources from "./pages/sources.js";
import * as flow from "./pages/flow.js";
import * as log from "./pages/log.js";
import * as doctor from "./pages/doctor.js";

/** @type {Map<string, [string, string, any, string]>} page → name in the menu, key, module, page of the menu */
const PAGES = new Map([
  ["overview", ["Overview", "o", status, "overview"]], ["inbox", ["Inbox", "i", inbox, "inbox"]], ["dead", ["Dead letters", "d", dead, "dead"]],
  ["quarantine", ["Quarantine", "q", quarantine, "quarantine"]], ["plans", ["Plans", "p", plan, "plans"]], ["sources", ["Sources", "s", sources, "sources"]],
  ["flow", ["Flow", "m", flow, "flow"]], ["sync", ["Sync", "f", coverage, "sync"]], ["drift", ["Drift", "r", drift, "drift"]],
  ["log", ["Log", "l", log, "log"]], ["doctor", ["Doctor", "c", doctor, "doctor"]],
  ["event", ["Event", "", event, "inbox"]], ["plan", ["Plan", "", plan, "plans"]], ["source", ["Source", "", sources, "sources"]], ["presets", ["Presets", "", sources, "sources"]],
]);
/** Codes of `status` that each page of the menu counts. @type {Map<string, Set<string>>} */
const COUNTED = new Map([["dead", new Set(["dead_letters"])], ["quarantine", new Set(["rejected", "quarantined"])], ["plans", new Set(["plan_stopped"])], ["drift", new Set(["drift"])]]);

/** @type {api.Session} */
let session;
/** @type {{view: any, route: import("./route.js").Route, abort: AbortController, page: any} | null} */
let current = null;
/** @type {Map<string, api.Answer>} */
const answers = new Map();
const part = Object.fromEntries(["banner", "main", "heading", "content", "menu", "foot", "liveButton", "says"].map((name) => [name, /** @type {any} */ (null)]));

const theme = {
  get now() { try { return localStorage.getItem("theme") ?? "auto"; } catch { return "auto"; } },
  next() {
    const next = ({ auto: "light", light: "dark", dark: "auto" })[theme.now] ?? "auto";
    try { localStorage.setItem("theme", next); } catch { /* no storage */ }
    theme.apply();
    announce(`Theme: ${next}`);
  },
  apply() { set(document.documentElement, "data-theme", theme.now === "auto" ? null : theme.now); },
};

let saidAt = 0;
/** @param {string} text at most one message in two seconds */
function announce(text) {
  const wait = Math.max(0, saidAt + 2000 - Date.now());
  saidAt = Date.now() + wait;
  setTimeout(() => say(part.says, text), wait);
}

/** The document of `status`, which every page shares. */
const shared = Object.assign(new EventTarget(), {
  doc: /** @type {any} */ (null), error: /** @type {any} */ (null), answer: /** @type {any} */ (null),
  async load() {
    try {
      shared.answer = await api.read("status");
      shared.doc = shared.answer.doc;
      shared.error = null;
    } catch (error) { shared.error = error; }
    drawMenu();
    shared.dispatchEvent(new Event("change"));
  },
});

function drawMenu() {
  const items = shared.doc?.items ?? [];
  const here = current ? PAGES.get(current.route.page)?.[3] : "";
  for (const link of part.menu.querySelectorAll("a")) {
    const name = link.dataset.page;
    const mine = name === "overview" ? items.filter((i) => i.severity !== "note") : items.filter((i) => COUNTED.get(name)?.has(i.code));
    const n = name === "overview" ? mine.length : mine.reduce((sum, i) => sum + (i.count ?? 1), 0);
    const worst = mine.some((i) => i.severity === "bad") ? "bad" : "warn";
    const badge = link.querySelector(".badge");
    say(badge, n ? num(n) : "");
    set(badge, "class", `badge ${n && mine.some((i) => i.severity !== "note") ? worst : ""}`);
    set(link, "aria-current", name === here ? "page" : null);
  }
}

/** The read that answers the page, and that live mode repeats. */
const main = () => answers.get("main") ?? [...answers.values()][0];

function drawFoot() {
  const first = main();
  if (!first) return fill(part.foot, h("span.dim", "…"));
  const calls = [...answers.values()].reduce((n, a) => n + a.calls, 0), units = [...answers.values()].reduce((n, a) => n + a.units, 0);
  const open = part.foot.querySelector("details")?.open ?? false;
  fill(part.foot, h("span.dim.same", "same in a terminal:"), h("code.main", first.command),
    copy(() => first.command, "Copy", "Copy the command of this page"),
    h("details.reads", { open }, h("summary", `${plural(answers.size, "read")} · ${plural(calls, "call")} · ${num(units)} RU`),
      h("ul", [...answers.values()].map((a) => h("li", h("code", a.command), h("span.dim", `${a.calls} calls, ${num(a.units)} read units`))))));
}

/** @param {string | null} [text] null for a page that does not read again */
function drawLive(text = "") {
  part.liveButton.hidden = text === null;
  const label = live.on ? `live${text ? ` ${text}` : ""}` : "paused";
  fill(part.liveButton, h("span", { class: `dot ${live.on ? "on" : ""}`, "aria-hidden": "true" }), label);
  set(part.liveButton, "aria-pressed", String(live.on));
}

/** @param {api.Session} s @param {AbortController} abort */
function context(s, abort) {
  const title = (text) => { document.title = `${text} · ${s.context}`; };
  return {
    session: s, signal: abort.signal, status: shared, announce, title, go, root: part.content,
    read: (name, /** @type {api.Flags} */ flags = []) => api.read(name, flags, abort.signal),
    note: (slot, answer) => { if (!abort.signal.aborted) { answers.set(slot, answer); drawFoot(); } },
    heading: (/** @type {any[]} */ ...children) => fill(part.heading, ...children),
    live: (seconds, tick) => {
      // At most 50 calls in a second, however many calls the read needs.
      const slow = () => Math.max(seconds, Math.ceil((main()?.calls ?? 0) / 50));
      drawLive(`${slow()}s`);
      every(slow, abort.signal, async () => { await tick(); if (!abort.signal.aborted) drawLive(`${slow()}s`); });
    },
    liveText: drawLive,
  };
}

function show() {
  const route = parse(location.hash);
  const found = PAGES.get(route.page);
  document.body.classList.remove("menuopen");
  if (current && current.route.page === route.page && current.route.id === route.id && current.view.update) {
    current.route = route;
    current.view.update(route);
    return;
  }
  current?.abort.abort();
  answers.clear();
  const abort = new AbortController();
  const page = context(session, abort);
  fill(part.content);
  drawLive(null);
  const name = found?.[0] ?? "Not found";
  page.heading(name);
  page.title(name);
  current = { view: {}, route, abort, page };
  drawMenu();
  drawFoot();
  part.main.scrollTop = 0;
  scrollTo(0, 0);
  if (!found) fill(part.content, h("p", "There is no such page. ", h("a", { href: "#/" }, "Overview")));
  else try { current.view = found[2].open(page, route); } catch (error) { fill(part.content, failure(error)); }
  part.heading.focus({ preventScroll: true });
}

function help() {
  const rows = (list) => h("dl.keys", list.map(([key, what]) => h("div", h("dt", key.split(" ").map((k) => h("kbd", k))), h("dd", what))));
  const box = h("input", { type: "checkbox", id: "keyson", checked: keys.keysOn(), on: { change: () => keys.switchKeys(box.checked) } });
  const mine = current?.view.keys ?? [];
  const close = h("button", { on: { click: () => dialog.close() } }, "Close");
  const dialog = h("dialog", { "aria-label": "Keys" }, h("h2", "Keys"),
    h("div.columns", rows([...PAGES].filter(([, p]) => p[1]).map(([, p]) => [`g ${p[1]}`, p[0]])),
      rows([...mine, ["c", "Copy the command of this page"], ["space", "Pause or continue live mode"], ["t", "Theme: auto, light, dark"], ["z", "Times in UTC or local"], ["?", "This list"]])),
    h("p", h("label", { for: "keyson" }, box, " Single keys are on")), close);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** @type {keys.Keys} */
const common = [
  ["?", "Keys", help], ["t", "Theme", () => theme.next()], [" ", "Live", () => setLive(!live.on)], ["c", "Copy", () => part.foot.querySelector("button")?.click()],
  ["z", "Zone", () => { switchZone(); announce(isUtc() ? "Times in UTC" : "Local times"); if (current) { current.view = {}; current.route.page = ""; show(); } }],
  ...[...PAGES].filter(([, p]) => p[1]).map(([page, p]) => /** @type {keys.Keys[0]} */ ([`g ${p[1]}`, p[0], () => go(to(page))])),
];

/** @param {api.Session} s */
function build(s) {
  const who = s.who ? s.who.split("/").slice(-2).join("/") : null;
  const button = (label, text, click) => h("button", { class: "quiet", title: label, "aria-label": label, on: { click } }, text);
  part.liveButton = h("button", { class: "quiet live", title: "Pause or continue live mode (space)", on: { click: () => setLive(!live.on) } });
  part.menu = h("nav", { "aria-label": "Pages", id: "menu" }, [...PAGES].filter(([, p]) => p[1]).map(([page, p]) =>
    h("a", { href: to(page), "data-page": page, class: page }, h("span", p[0]), h("span.badge"))));
  part.heading = h("h1", { tabindex: -1 });
  part.content = h("div.content");
  part.banner = h("div.banner", { role: "status", hidden: true });
  part.main = h("main", { id: "main" }, part.banner, part.heading, part.content);
  part.foot = h("footer");
  part.says = h("div.vh", { "aria-live": "polite" });
  fill(document.body,
    h("a.skip", { href: "#main", on: { click: (e) => { e.preventDefault(); part.heading.focus(); } } }, "Skip to content"),
    h("header", { class: "top" },
      h("button", { class: "quiet menu", "aria-controls": "menu", "aria-label": "Menu", on: { click: () => document.body.classList.toggle("menuopen") } }, h("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, h("path", { d: "M2 4h12M2 8h12M2 12h12" }))),
      h("a.brand", { href: "#/", "aria-label": "webhookctl, Overview" }, h("svg", { viewBox: "0 0 32 32", "aria-hidden": "true" }, h("rect", { width: 32, height: 32, rx: 7 }), h("path", { d: "M7 13v9a2 2 0 0 0 2 2h14a2 2 0 0 0 2-2v-9M16 6v11m-4.6-4.4L16 17l4.6-4.4" })), h("span", "webhookctl")),
      h("span", { class: `where ${s.protected ? "protected" : s.local ? "local" : ""}` }, h("b", s.context)),
      h("span.facts2.dim", [s.region, s.account, s.protected ? "protected" : null, who].filter(Boolean).join(" · ")),
      h("span.grow"), h("span.mode.dim", s.write ? "may write" : "read-only"), part.liveButton,
      button("Theme: auto, light, dark (t)", "◐", () => theme.next()), button("Keys (?)", "?", help)),
    part.menu, part.main, part.foot, part.says);
  set(document.body, "class", s.protected ? "band protected" : s.local ? "band local" : "");
}

/** What stands instead of the pages while there is no session. */
function signIn(error) {
  current?.abort.abort();
  current = null;
  const box = h("input", { id: "code", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
  const enter = async () => {
    const code = /code=([^&\s]+)/.exec(box.value)?.[1] ?? box.value.trim();
    try { start(await api.exchange(code)); } catch (next) { signIn(next); }
  };
  set(document.body, "class", "closed");
  document.title = "webhookctl: no session";
  fill(document.body, h("main.signin", h("h1", { tabindex: -1 }, "This page has no session"),
    error && !error.gone ? failure(error) : null,
    h("p", error?.gone ? "webhookctl is not running. Start it with " : "Open the address that the terminal shows, or press o there. To start a console: ", h("code", "webhookctl console")),
    h("div.row", h("label", { for: "code" }, "Address or code"), box, h("button", { class: "primary", on: { click: enter } }, "Open"))));
  box.addEventListener("keydown", (e) => { if (e.key === "Enter") enter(); });
}

/** @param {api.Session} s */
function start(s) {
  session = s;
  build(s);
  show();
  shared.load();
  const forever = new AbortController().signal;
  every(() => 30, forever, () => (current?.route.page === "overview" ? null : shared.load()));
}

async function begin() {
  theme.apply();
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (code) history.replaceState(null, "", "/#/");
  try { start(code ? await api.exchange(code) : api.hasToken() ? await api.session() : (() => { throw null; })()); } catch (error) {
    // The same link again in a browser that has a session: go on with that session.
    if (code && api.hasToken()) try { return start(await api.session()); } catch { /* the session has ended too */ }
    signIn(error);
  }
}

addEventListener("hashchange", () => {
  const code = /^#code=(.+)$/.exec(location.hash)?.[1];
  if (code) begin(); else if (session && part.menu?.isConnected) show();
});
live.addEventListener("change", () => { if (part.liveButton && !part.liveButton.hidden) drawLive(); });
api.health.addEventListener("ended", () => signIn(null));
api.health.addEventListener("gone", () => {
  if (!part.banner?.isConnected) return;
  const at = [...answers.values()].at(-1)?.at ?? new Date();
  set(part.banner, "hidden", null);
  fill(part.banner, mark("square", "bad"), h("span", `webhookctl has stopped. This is what it last knew, at ${clock(at)}.`));
});
api.health.addEventListener("back", () => part.banner && set(part.banner, "hidden", true));
keys.listen(() => [...(current?.view.keys ?? []), ...(session ? common : [])]);
begin();
