// @ts-check
// Log: who did what, and why?
import { fill, h } from "../h.js";
import { empty, panel, skeleton } from "../panel.js";
import { flag, to, withFlag } from "../route.js";
import { table } from "../table.js";
import { num, when } from "../words.js";

export function open(page, route) {
  let flags = route.flags;
  const by = h("input", { id: "by", autocomplete: "off", spellcheck: "false", placeholder: "alice" }), what = h("input", { id: "what", autocomplete: "off", spellcheck: "false", placeholder: "replay, erase, sources…" });
  const apply = () => page.go(to("log", "", withFlag(withFlag(flags, "by", by.value.trim()), "what", what.value.trim())));
  for (const input of [by, what]) input.addEventListener("change", apply);
  const values = () => { by.value = flag(flags, "by"); what.value = flag(flags, "what"); };
  const plan = (e) => e.plan ?? /\brpl_\w+/.exec(`${e.selection}`)?.[0];
  const rows = table({ label: "What operators changed", key: (e) => e.id, columns: [["When", "w-time", (e) => when(e.at)], ["What", "w-fp", (e) => h("b", e.what)], ["Who", "w-source p1", (e) => e.by], ["Through", "w-n p3", (e) => ({ cli: "terminal", console: "console", mcp: "agent" })[/** @type {string} */ (e.through)] ?? "–"],
    ["Events", "w-n n p1", (e) => num(e.events)], ["Selection", "w-next p2", (e) => plan(e) ? h("a.mono", { href: to("plan", plan(e)) }, e.selection) : e.selection], ["Reason", "w-type", (e) => e.reason]] });
  const box = panel(page, { slot: "main", wait: skeleton(8), read: () => ["log", flags], draw: (doc, body) => {
    if (!doc.items.length) return void fill(body, empty(flags.length ? "Nothing matches." : "No change in the last 90 days."));
    if (!rows.node.isConnected) fill(body, rows.node);
    rows.show(doc.items);
  } });
  fill(page.root, h("div.bar.fields", h("div.field", h("label", { for: "by" }, "Who"), by), h("div.field", h("label", { for: "what" }, "What"), what)), box.node);
  values();
  box.load();
  return { update(next) { flags = next.flags; values(); box.load(); } };
}
