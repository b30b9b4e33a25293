// @ts-check
// Single keys. None of them changes anything stored, and they can be switched off.

/** @typedef {[key: string, what: string, run: () => void][]} Keys */

let first = "";
let on = true;
try { on = localStorage.getItem("keys") !== "off"; } catch { /* no storage */ }
export const keysOn = () => on;
/** @param {boolean} value */
export function switchKeys(value) {
  on = value;
  try { localStorage.setItem("keys", value ? "on" : "off"); } catch { /* no storage */ }
}

/** @param {() => Keys} keys the keys that apply now, the most specific first */
export function listen(keys) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const at = /** @type {HTMLElement} */ (event.target);
    const typing = at.matches("input:not([type=range]), textarea, select") || at.closest("dialog");
    if (typing && event.key !== "Escape") return;
    if (!on && event.key !== "Escape") return;
    if (event.key === " " && at.matches("button, a, summary, input")) return;
    const key = first ? `${first} ${event.key}` : event.key;
    first = "";
    const found = keys().find(([name]) => name === key);
    if (found) { event.preventDefault(); return found[2](); }
    if (event.key === "g") { first = "g"; setTimeout(() => { first = ""; }, 1500); }
  });
}
