// @ts-check
// Log: who did what, and why?
import { fill, h } from "../h.js";
import { empty, panel, skeleton } from "../panel.js";
import { flag, to, withFlag } from "../route.js";
import { table } from "../table.js";
import { num, when } from "../words.js";

/** @param {any} page @param {import("../route.js").Route} route */
export function open(page, route) {
  let flags = route.flags;
  const by = h("input", { id: "by", autocomplete: "off", spellcheck: "false", placeholder: "alice" }), what = h("input", { id: "what", autocomplete: "off", spellcheck: "false", placeholder: "replay, erase, sources…" });
  const apply = () => page.go(to("log", "", withFlag(withFlag(flags, "by", by.value.trim()), "what", what.value.trim())));
  for (const input of [by, what]) input.addEventListener("change", apply);
  const values = () => { by.value = flag(flags, "by"); what.value = flag(flags, "what"); };
  const plan = (/** @type {any} */ e) => e.plan ?? /\brpl_\w+/.exec(`${e.selection}`)?.[0];
  const rows = table({ label: "What operators changed", key: (/** @type {any} */ e) => e.id, columns: [{ head: "When", class: "w-time", cell: (e) => when(e.at) }, { head: "What", class: "w-fp", cell: (e) => h("b", e.what) }, { head: "Who", class: "w-source", cell: (e) => e.by }, { head: "Through", class: "w-n p3", cell: (e) => ({ cli: "terminal", console: "console", mcp: "agent" })[/** @type {string} */ (e.through)] ?? "–" },
    { head: "Events", class: "w-n n p1", cell: (e) => num(e.events) }, { head: "Selection", class: "w-next p2", cell: (e) => plan(e) ? h("a.mono", { href: to("plan", plan(e)) }, e.selection) : e.selection }, { head: "Reason", class: "w-type", cell: (e) => e.reason }] });
  const box = panel(page, { slot: "main", wait: skeleton(8), read: () => ["log", flags], draw: (doc, body) => {
    if (!doc.items.length) return void fill(body, empty(flags.length ? "Nothing matches." : "Nobody changed anything in the last 90 days."));
    if (!rows.node.isConnected) fill(body, rows.node);
    rows.show(doc.items);
  } });
  fill(page.root, h("div.bar.fields", h("div.field", h("label", { for: "by" }, "Who"), by), h("div.field", h("label", { for: "what" }, "What"), what)), box.node);
  values();
  box.load();
  return { update(/** @type {import("../route.js").Route} */ next) { flags = next.flags; values(); box.load(); } };
}
