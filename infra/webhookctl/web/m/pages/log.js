// Log: who did what, and why?
import { empty, fill, flag, h, listing, num, to, when, withFlag } from "../kit.js";

export function open(page, route) {
  let flags = route.flags;
  const field = (id, name, placeholder) => {
    const input = h("input", { id, placeholder, on: {
      change: () => page.go(to("log", "", withFlag(flags, id, input.value.trim()))) } });
    return { input, node: h("div.field", h("label", { for: id }, name), input) };
  };
  const fields = [field("by", "Who", "alice"), field("what", "What", "replay, erase, sources…")];
  const values = () => fields.forEach(({ input }) => { input.value = flag(flags, input.id); });
  const through = { cli: "terminal", console: "console", mcp: "agent" };
  const plan = (e) => e.plan ?? /\brpl_\w+/.exec(`${e.selection}`)?.[0];
  const box = listing(page, { wait: [8], read: () => ["log", flags], label: "What operators changed",
    none: empty("No change in this time.", "The log keeps what operators changed, who did it, and why."),
    columns: () => [
      ["When", "w-time", (e) => when(e.at)], ["What", "w-fp", (e) => h("b", e.what)], ["Who", "w-source.p1",
        (e) => e.by],
      ["Through", "w-n.p3", (e) => through[e.through] ?? "–"], ["Events", "w-n.n.p1", (e) => num(e.events)],
      ["Selection", "w-next.p2", (e) => plan(e) ? h("a.mono", { href: to("plan", plan(e)) }, e.selection)
        : e.selection],
      ["Reason", "", (e) => e.reason]] });
  fill(page.root, h("div.bar.fields", fields.map(({ node }) => node)), box.node);
  values();
  box.load();
  return { update(next) { flags = next.flags; values(); box.load(); } };
}
