// Repeats reads while the page is visible and live mode is on.
import { stream } from "./api.js";

export const live = Object.assign(new EventTarget(), { on: true });
export function toggleLive() {
  live.on = !live.on;
  live.dispatchEvent(new Event("change"));
}
const active = () => live.on && document.visibilityState === "visible";
function onChange(signal, run) {
  live.addEventListener("change", run, { signal });
  document.addEventListener("visibilitychange", run, { signal });
  run();
}

/** Calls `tick` every `seconds()`, after the one before has ended. */
export function every(seconds, signal, tick) {
  let timer, last = Date.now();
  const plan = () => {
    clearTimeout(timer);
    if (signal.aborted || !active()) return;
    timer = setTimeout(async () => {
      last = Date.now();
      try { await tick(); } catch { /* the panel shows the error */ }
      plan();
    }, Math.max(0, last + seconds() * 1000 - Date.now()));
  };
  signal.addEventListener("abort", plan);
  onChange(signal, plan);
}

/** Follows the inbox. A broken stream is opened again after some seconds; it is closed while the page is hidden. */
export function follow(flags, signal, change) {
  let open, timer;
  const look = async () => {
    clearTimeout(timer);
    if (!active() || signal.aborted) { open?.abort(); open = null; return; }
    if (open) return;
    const mine = open = new AbortController();
    try { await stream("inbox.tail", flags, mine.signal, change); } catch { /* opened again below */ }
    if (open !== mine) return;
    open = null;
    if (!signal.aborted) timer = setTimeout(look, 3000);
  };
  signal.addEventListener("abort", look);
  onChange(signal, look);
}
