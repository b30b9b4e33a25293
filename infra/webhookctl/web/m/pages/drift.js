// @ts-check
// Drift: do we and the provider agree?
import { fill, h } from "../h.js";
import { empty, panel, skeleton } from "../panel.js";
import { to } from "../route.js";
import { table } from "../table.js";
import { ago, command, num, state } from "../words.js";

const COUNTS = ["missing", "gone", "different", "ambiguous", "settled", "moving", "young", "unconfirmed"];
/** @param {any} v */
const side = (v) => v === null || v === undefined ? "–" : typeof v === "object" ? JSON.stringify(v) : String(v);

/** @param {any} page */
export function open(page) {
  const at = { asOf: "" };
  const rows = table({ label: "Comparisons", key: (/** @type {any} */ c) => `${c.source} ${c.name}`, columns: [
    { head: "Source", class: "w-source", cell: (c) => h("a", { href: to("source", c.source) }, c.source) }, { head: "Objects", class: "w-state", cell: (c) => c.objects }, { head: "Compared", class: "w-n n", cell: (c) => num(c.compared) },
    { head: "Differ", class: "w-n n", cell: (c) => c.drifted ? h("b.bad", num(c.drifted)) : "0" }, { head: "Limit", class: "w-n n p2", cell: (c) => `${num(c.cap)} %` }, { head: "With", class: "w-type mono p2", cell: (c) => c.against }, { head: "Last run", class: "w-age n", cell: (c) => ago(c.last_run_at, at.asOf) }] });
  const list = panel(page, { slot: "main", wait: skeleton(3), read: () => ["reconcile.list", []], draw: (doc, body) => {
    at.asOf = doc.as_of;
    fill(body, doc.items.length ? rows.node : empty("No comparison is configured.", "A comparison lists the provider's objects and yours, and finds those that differ, whatever webhooks arrived.", command("webhookctl help reconcile")));
    rows.show(doc.items);
  } });
  const reports = panel(page, { title: "Last reports", slot: "reports", wait: skeleton(4), read: () => ["reconcile.report", []], draw: (doc, body) => void fill(body, doc.reports.length ? doc.reports.map((/** @type {any} */ r) => h("section.report", h("h3", `${r.source}, ${r.name} `, h("code.dim", r.id)),
    r.stopped ? h("p.bad", `Stopped: ${r.stopped}`) : null,
    h("p.counts", h("span.key.ok", "agree ", h("b", num(r.counts.agree))), COUNTS.filter((c) => r.counts[c]).map((c) => h("span", { class: `key ${["missing", "gone", "different"].includes(c) ? "bad" : "hold"}` }, `${c} `, h("b", num(r.counts[c]))))),
    r.drift.length ? [h("table", { "aria-label": `Objects of ${r.source} that differ` }, h("thead", h("tr", ["Object", "Kind", "Field", "Here", "At the provider"].map((t) => h("th", { scope: "col" }, t)))), h("tbody", r.drift.slice(0, 100).flatMap((/** @type {any} */ d) => (d.fields?.length ? d.fields : [{}]).map((/** @type {any} */ f) => h("tr", h("td.mono", d.object ?? d.id ?? "–"), h("td", state(d.kind)), h("td", f.name ?? "–"), h("td.mono", side(f.here ?? f.ours)), h("td.mono", side(f.there ?? f.provider))))))),
      command(`webhookctl reconcile repair ${r.id} --dry-run`)] : h("p.dim", `All ${num(r.counts.compared)} objects agree.`))) : h("p.dim", "No report yet. ", h("code", "webhookctl reconcile run"), " makes one.")) });
  fill(page.root, h("p.lead.dim", "Objects of the provider, compared with yours. Repair is a command: it changes data, so it is not a button."), list.node, reports.node);
  list.load();
  reports.load();
  return {};
}
