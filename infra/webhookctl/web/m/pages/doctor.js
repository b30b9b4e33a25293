// Doctor: is the deployment set up right? It runs when this page is opened, never by a timer.
import { button, copy, fill, h, look, mark, note, panel, plural } from "../kit.js";

/** @type {[string, string, boolean][]} */
const GROUPS = [["fail", "failed", true], ["warn", "with a warning", true], ["not_checked", "not looked at", false],
  ["pass", "passed", false]];

function check(i) {
  const fix = /webhookctl [^`;]+/.exec(i.fix ?? "")?.[0].trim();
  return h("li.check", mark(...look(i.result)), h("div", h("p", h("b.mono", i.check), " ", h("span", i.found)),
    i.details?.length ? h("ul.plain.dim", i.details.map((d) => h("li", d))) : null,
    i.fix ? h("p.dim", i.fix, " ", fix ? copy(() => fix, "Copy command", `Copy command: ${i.check}`) : null) : null));
}

export function open(page) {
  const box = panel(page, { wait: [10], read: () => ["doctor"], draw: (doc, body) => {
    const of = (result) => doc.items.filter((i) => i.result === result);
    const bad = of("fail").length, warn = of("warn").length, worst = bad ? "fail" : warn ? "warn" : "pass";
    fill(body, h("div.headline", h("p.big", mark(...look(worst)), bad ? `${plural(bad, "check")} failed`
      : warn ? plural(warn, "warning") : "Everything that was checked is right"),
    note(`${of("pass").length} passed, ${of("not_checked").length} not looked at`), button("Check again",
      () => box.load())),
    GROUPS.map(([result, name, open]) => of(result).length ? h("details.checks", { open },
      h("summary", h("h2", `${plural(of(result).length, "check")} ${name}`)), h("ul", of(result).map(check))) : null));
  } });
  fill(page.root, box.node);
  box.load();
}
