// @ts-check
// Drift: do we and the provider agree?
import { fill, h } from "../h.js";
import { empty, panel, skeleton } from "../panel.js";
import { to } from "../route.js";
import { table } from "../table.js";
import { ago, command, num, state } from "../words.js";

const COUNTS = ["missing", "gone", "different", "ambiguous", "settled", "moving", "young", "unconfirmed"];
const side = (v) => v === null || v === undefined ? "–" : typeof v === "object" ? JSON.stringify(v) : String(v);

export function open(page) {
  const at = { asOf: "" };
  const rows = table({ label: "Comparisons", key: (c) => `${c.source} ${c.name}`, columns: [
    ["Source", "w-source", (c) => h("a", { href: to("source", c.source) }, c.source)], ["Objects", "w-state", (c) => c.objects], ["Compared", "w-n n", (c) => num(c.compared)],
    ["Differ", "w-n n", (c) => c.drifted ? h("b.bad", num(c.drifted)) : "0"], ["Limit", "w-n n p2", (c) => `${num(c.cap)} %`], ["With", "w-type mono p2", (c) => c.against], ["Last run", "w-age n", (c) => ago(c.last_run_at, at.asOf)]] });
  const list = panel(page, { slot: "main", wait: skeleton(3), read: () => ["reconcile.list", []], draw: (doc, body) => {
    at.asOf = doc.as_of;
    fill(body, doc.items.length ? rows.node : empty("No comparison is configured.", "A comparison lists the provider's objects and yours, and finds those that differ, whatever webhooks arrived.", command("webhookctl help reconcile")));
    rows.show(doc.items);
  } });
  const reports = panel(page, { title: "Last reports", slot: "reports", wait: skeleton(4), read: () => ["reconcile.report", []], draw: (doc, body) => void fill(body, doc.reports.length ? doc.reports.map((r) => h("section.report", h("h3", `${r.source}, ${r.name} `, h("code.dim", r.id)),
    r.stopped ? h("p.bad", `Stopped: ${r.stopped}`) : null,
    h("p.counts", h("span.key.ok", "agree ", h("b", num(r.counts.agree))), COUNTS.filter((c) => r.counts[c]).map((c) => h("span", { class: `key ${["missing", "gone", "different"].includes(c) ? "bad" : "hold"}` }, `${c} `, h("b", num(r.counts[c]))))),
    r.drift.length ? [h("table", { "aria-label": `Objects of ${r.source} that differ` }, h("thead", h("tr", ["Object", "Kind", "Field", "Here", "At the provider"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", r.drift.slice(0, 100).flatMap((d) => (d.fields?.length ? d.fields : [{}]).map((f) => h("tr", h("td.mono", d.object ?? d.id ?? "–"), h("td", state(d.kind)), h("td", f.name ?? "–"), h("td.mono", side(f.here ?? f.ours)), h("td.mono", side(f.there ?? f.provider))))))),
      command(`webhookctl reconcile repair ${r.id} --dry-run`)] : h("p.dim", `All ${num(r.counts.compared)} objects agree.`))) : h("p.dim", "No report yet. ", h("code", "webhookctl reconcile run"), " makes one.")) });
  fill(page.root, h("p.lead.dim", "Objects of the provider, compared with yours. Repair is a command: it changes data, so it is not a button."), list.node, reports.node);
  list.load();
  reports.load();
  return {};
}
