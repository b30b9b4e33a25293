// Single keys. None of them changes anything stored, and they can be switched off.
import { stored } from "./h.js";

/** @typedef {[key: string, what: string, run: () => any][]} Keys */

let first = "";
export const keysOn = () => stored("keys") !== "off";

/** @param {() => Keys} keys the keys that apply now, the most specific first */
export function listen(keys) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const at = /** @type {HTMLElement} */ (event.target);
    const typing = at.matches("input:not([type=range]), select") || at.closest("dialog");
    if (event.key !== "Escape" && (typing || !keysOn())) return;
    if (event.key === " " && at.matches("button, a, summary, input")) return;
    const key = first ? `${first} ${event.key}` : event.key;
    first = "";
    const found = keys().find(([name]) => name === key);
    if (found) { event.preventDefault(); return found[2](); }
    if (event.key === "g") { first = "g"; setTimeout(() => { first = ""; }, 1500); }
  });
}
