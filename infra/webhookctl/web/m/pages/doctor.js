// @ts-check
// Doctor: is the deployment set up right? It runs when this page is opened, never by a timer.
import { fill, h } from "../h.js";
import { panel, skeleton } from "../panel.js";
import { copy, mark, look, plural } from "../words.js";

const GROUPS = /** @type {[string, string, boolean][]} */ ([["fail", "failed", true], ["warn", "with a warning", true], ["not_checked", "not looked at", false], ["pass", "passed", false]]);

const check = (i) => h("li.check", mark(...look(i.result)), h("div", h("p", h("b.mono", i.check), " ", h("span", i.found)), i.details?.length ? h("ul.plain.dim", i.details.map((d) => h("li", d))) : null, i.fix ? h("p.fix", i.fix, " ", /webhookctl [^`]+/.test(i.fix) ? copy(() => (/webhookctl [^`;]+/.exec(i.fix)?.[0] ?? "").trim(), "Copy command", `Copy command: ${i.check}`) : null) : null));

export function open(page) {
  const again = h("button", { on: { click: () => box.load() } }, "Check again");
  const box = panel(page, { slot: "main", wait: skeleton(10), read: () => ["doctor", []], draw: (doc, body) => {
    const of = (result) => doc.items.filter((i) => i.result === result);
    const bad = of("fail").length, warn = of("warn").length;
    fill(body, h("div", { class: `headline ${bad ? "bad" : warn ? "warn" : ""}` }, h("p.big", mark(...look(bad ? "fail" : warn ? "warn" : "pass")), bad ? `${plural(bad, "check")} failed` : warn ? plural(warn, "warning") : "Everything that was checked is right"), h("p.dim", `${of("pass").length} passed, ${of("not_checked").length} not looked at`), again),
      GROUPS.map(([result, name, open]) => of(result).length ? h("details.checks", { open }, h("summary", h("h2", `${plural(of(result).length, "check")} ${name}`)), h("ul", of(result).map(check))) : null));
  } });
  fill(page.root, box.node);
  box.load();
  return {};
}
