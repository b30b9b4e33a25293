// @ts-check
// Repeats reads while the page is visible and live mode is on.
import { stream } from "./api.js";

export const live = Object.assign(new EventTarget(), { on: true });
/** @param {boolean} on */
export function setLive(on) {
  live.on = on;
  live.dispatchEvent(new Event("change"));
}
const active = () => live.on && document.visibilityState === "visible";

/** Calls `tick` every `seconds()`, after the one before has ended. @param {() => number} seconds @param {AbortSignal} signal @param {() => any} tick */
export function every(seconds, signal, tick) {
  let timer = 0;
  let last = Date.now();
  const plan = () => {
    clearTimeout(timer);
    if (signal.aborted || !active()) return;
    timer = setTimeout(async () => {
      last = Date.now();
      try { await tick(); } catch { /* the panel shows the error */ }
      plan();
    }, Math.max(0, last + seconds() * 1000 - Date.now()));
  };
  live.addEventListener("change", plan, { signal });
  document.addEventListener("visibilitychange", plan, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  plan();
}

/**
 * Follows the inbox. A broken stream is opened again after some seconds; it is closed while the page is hidden.
 * @param {import("./api.js").Flags} flags @param {AbortSignal} signal @param {(change: any) => void} change
 */
export function follow(flags, signal, change) {
  /** @type {AbortController | null} */
  let open = null;
  let wait = 0;
  const look = async () => {
    clearTimeout(wait);
    if (!active() || signal.aborted) { open?.abort(); open = null; return; }
    if (open) return;
    const mine = open = new AbortController();
    try { await stream("inbox.tail", flags, mine.signal, change); } catch { /* opened again below */ }
    if (open !== mine) return;
    open = null;
    if (!signal.aborted) wait = setTimeout(look, 3000);
  };
  live.addEventListener("change", look, { signal });
  document.addEventListener("visibilitychange", look, { signal });
  signal.addEventListener("abort", () => { clearTimeout(wait); open?.abort(); open = null; });
  look();
}
