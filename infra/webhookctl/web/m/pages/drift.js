// Drift: do we and the provider agree?
import { ago, command, empty, fill, grid, h, lead, listing, note, num, panel, sourceLink, state } from "../kit.js";

const COUNTS = ["missing", "gone", "different", "ambiguous", "settled", "moving", "young", "unconfirmed"];
const side = (v) => v === null || v === undefined ? "–" : typeof v === "object" ? JSON.stringify(v) : String(v);
const key = (name, tone, n) => h(`span.key.${tone}`, `${name} `, h("b", num(n)));

function report(r) {
  const rows = r.drift.slice(0, 100).flatMap((d) => (d.fields?.length ? d.fields : [{}]).map((f) =>
    [h("code.foreign", d.object ?? d.id ?? "–"), state(d.kind), f.name ?? "–",
      h("code.foreign", side(f.here ?? f.ours)),
      h("code.foreign", side(f.there ?? f.provider))]));
  return h("section.report", h("h3", `${r.source}, ${r.name} `, h("code.dim", r.id)),
    r.stopped ? h("p.bad", `Stopped: ${r.stopped}`) : null,
    h("p.legend", key("agree", "ok", r.counts.agree),
      COUNTS.filter((c) => r.counts[c]).map((c, i) => key(c, COUNTS.indexOf(c) < 3 ? "bad" : "hold", r.counts[c]))),
    rows.length ? [grid(`Objects of ${r.source} that differ`, [["Object"], ["Kind"], ["Field"], ["Here"],
      ["At the provider"]], rows),
      command(`webhookctl reconcile repair ${r.id} --dry-run`)] : note(`All ${num(r.counts.compared)} objects agree.`));
}

export function open(page) {
  const list = listing(page, { wait: [3], read: () => ["reconcile.list"], label: "Comparisons",
    key: (c) => `${c.source} ${c.name}`,
    none: empty("No comparison is configured.",
      "A comparison lists the provider's objects and yours, and finds those that differ, " +
      "whatever webhooks arrived.", command("webhookctl help reconcile")),
    columns: (at) => [["Source", "w-source", (c) => sourceLink(c.source)],
      ["Objects", "w-state", (c) => c.objects],
      ["Compared", "w-n.n", (c) => num(c.compared)], ["Differ", "w-n.n", (c) => c.drifted ? h("b.bad", num(c.drifted))
        : "0"],
      ["Limit", "w-n.n.p2", (c) => `${num(c.cap)} %`], ["With", "mono.p2", (c) => c.against],
      ["Last run", "w-age.n", (c) => ago(c.last_run_at, at.asOf)]] });
  const reports = panel(page, { title: "Last reports", slot: "reports", read: () => ["reconcile.report"],
    draw: (doc, body) =>
    fill(body, doc.reports.length ? doc.reports.map(report) : note("No report yet. ",
      h("code", "webhookctl reconcile run"), " makes one.")) });
  fill(page.root, lead("Objects of the provider, compared with yours. ",
    "Repair is a command: it changes data, so it is not a button."),
    list.node, reports.node);
  list.load();
  reports.load();
}
