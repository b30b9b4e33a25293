// @ts-check
// A table that keeps its rows by key, its columns by class, and moves nothing when data changes.
import { fill, h, keep, set } from "./h.js";

/**
 * @template T
 * @typedef {[any, string, (item: T) => any]} Column  the heading, the class, and what a cell holds
 */

/**
 * @template T
 * @param {{label: string, columns: Column<T>[], key: (item: T) => string, link?: (item: T) => string, tone?: (item: T) => string}} how
 */
export function table({ label, columns, key, link, tone }) {
  const body = h("tbody");
  const node = h("div.tablebox", h("table", { "aria-label": label },
    h("thead", h("tr", columns.map(([head, name]) => h("th", { scope: "col", class: name }, head)))), body));
  /** @type {Map<string, T>} */
  const items = new Map();
  const make = (item) => {
    const row = h("tr", columns.map(([, name]) => h("td", { class: name })));
    if (link) {
      row.classList.add("links");
      row.addEventListener("click", (event) => {
        const at = /** @type {Element} */ (event.target);
        if (at.closest("a, button, input, details") || String(getSelection() ?? "")) return;
        const to = link(/** @type {T} */ (items.get(key(item))));
        if (event.metaKey || event.ctrlKey) open(to, "_blank", "noopener"); else location.hash = to;
      });
    }
    draw(row, item);
    return row;
  };
  const draw = (row, item) => {
    if (tone) set(row, "data-tone", tone(item) || null);
    columns.forEach(([, , make], i) => {
      const cell = row.cells[i];
      const made = make(item);
      if (!(made instanceof Node) && !Array.isArray(made)) {
        const text = String(made ?? "");
        if (cell.plain !== text) { fill(cell, text); cell.plain = text; }
      } else if (!cell.firstChild || cell.textContent !== textOf(made)) fill(cell, made);
    });
  };
  return {
    node, body,
    /** @param {T[]} list */
    show(list) {
      items.clear();
      for (const item of list) items.set(key(item), item);
      keep(body, list, key, make, draw);
    },
    /** Changes one row where it stands. @param {T} item */
    change(item) {
      const at = [...items.keys()].indexOf(key(item));
      if (at >= 0) { items.set(key(item), item); draw(body.rows[at], item); }
    },
    get items() { return [...items.values()]; },
  };
}
/** @returns {string} */
const textOf = (made) => Array.isArray(made) ? made.map(textOf).join("") : made instanceof Node ? made.textContent ?? "" : made === null || made === undefined || made === false ? "" : String(made);

/** Moves the focus between the links of the rows. @param {Element} root @param {number} by */
export function step(root, by) {
  const links = [.../** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("tbody .go, .items .go"))].filter((a) => a.offsetParent);
  if (!links.length) return;
  const at = links.indexOf(/** @type {any} */ (document.activeElement));
  const next = links[Math.min(links.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by))];
  next.focus();
  next.closest("tr")?.scrollIntoView({ block: "nearest" });
}
/** The keys of a list. @param {Element} root @returns {import("./keys.js").Keys} */
export const rowKeys = (root) => [["j", "Next", () => step(root, 1)], ["k", "Previous", () => step(root, -1)]];
/** The keys of one thing. @param {() => void} back @returns {import("./keys.js").Keys} */
export const backKeys = (back) => [["u", "Back", back], ["Escape", "Back", back]];
