// A table that keeps its rows by key, its columns by class, and moves nothing when data changes.
import { fill, h, keep } from "./h.js";
import { num } from "./words.js";

/** Where a row was opened from: the page of one thing steps through the same list. */
let trail = { from: "", links: /** @type {string[]} */ ([]) };

/**
 * Columns are the heading, the class, and what a cell holds.
 * @param {{label: string, columns: [any, string, (item: any) => any][], key: (item: any) => string,
 *   link?: (item: any) => string}} how
 */
export function table({ label, columns, key, link }) {
  const body = h("tbody");
  const heads = columns.map(([head, name]) => h(`th.${name}`, { scope: "col" }, head));
  const node = h("div.tablebox", h("table", { "aria-label": label }, h("thead", h("tr", heads)), body));
  const items = new Map();
  if (link) body.addEventListener("click", (event) => {
    const at = event.target, row = at.closest("tr");
    const to = row && link(items.get(row.key));
    if (at.closest("a")) { if (at.closest("a").getAttribute("href") !== to) return; }
    else if (!row || at.closest("button, input") || String(getSelection() ?? "")) return;
    trail = { from: location.hash, links: [...items.values()].map(link) };
    if (at.closest("a")) return;
    if (event.metaKey || event.ctrlKey) open(to, "_blank", "noopener");
    else location.hash = to;
  });
  const make = (item) => {
    const row = h(link ? "tr.links" : "tr", columns.map(([, name]) => h(`td.${name}`)));
    row.key = key(item);
    draw(row, item);
    return row;
  };
  const draw = (row, item) => columns.forEach(([, , content], i) => {
    const cell = row.cells[i], made = fill(h("td"), content(item));
    if (made.isEqualNode(cell.last)) return;
    cell.last = made.cloneNode(true);
    cell.replaceChildren(...made.childNodes);
  });
  return {
    node,
    show(list) {
      items.clear();
      for (const item of list) items.set(key(item), item);
      keep(body, list, key, make, draw);
    },
    /** Changes one row where it stands. */
    change(item) {
      const at = [...items.keys()].indexOf(key(item));
      if (at >= 0) { items.set(key(item), item); draw(body.rows[at], item); }
    },
    get items() { return [...items.values()]; },
  };
}

/** A table that does not change. @param {any[][]} heads headings with their classes @param {any[][]} rows cells */
export const grid = (label, heads, rows) => h("div.tablebox", h("table.auto", { "aria-label": label },
  h("thead", h("tr", heads.map(([text, name = ""]) => h(`th.${name}`, { scope: "col" }, text)))),
  h("tbody", rows.map((cells) => h("tr", cells.map((cell, i) => h(`td.${heads[i][1] ?? ""}`, cell)))))));

/** Moves the focus between the links of the rows. */
function step(root, by) {
  const links = [...root.querySelectorAll("tbody .go, .items .go")].filter((a) => a.offsetParent);
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by))];
  next?.focus();
  next?.closest("tr")?.scrollIntoView({ block: "nearest" });
}
/** The keys of a list. @returns {import("./keys.js").Keys} */
export const rowKeys = (root) => [["j", "Next", () => step(root, 1)], ["k", "Previous", () => step(root, -1)]];

/** The keys of one thing: back, and the neighbours in the list from which it was opened. @param {string} up the list */
export function oneKeys(up) {
  const back = () => { location.hash = trail.links.includes(location.hash) ? trail.from : up; };
  const by = (n) => () => {
    const at = trail.links.indexOf(location.hash), next = trail.links[at + n];
    if (at >= 0 && next) location.replace(next);
  };
  return /** @type {import("./keys.js").Keys} */ ([["j", "Next of the list", by(1)], ["k", "Previous of the list",
    by(-1)],
    ["u", "Back", back], ["Escape", "Back", back]]);
}
/** The neighbours as links, if the page was opened from a list. */
export function neighbours() {
  const at = trail.links.indexOf(location.hash), all = trail.links.length;
  if (at < 0 || all < 2) return null;
  const link = (n, key, name) => trail.links[n]
    ? h("a", { href: trail.links[n], title: `${name} (${key})` }, h("kbd", key)) : h("kbd", key);
  return h("span.near.dim", link(at - 1, "k", "Previous"), `${num(at + 1)} of ${num(all)}`, link(at + 1, "j", "Next"));
}
