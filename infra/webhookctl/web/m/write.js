// @ts-check
// Changes: a plan of a replay, and what is done with it. Only a console with `--write` answers these.
import { attempt, change } from "./api.js";
import { fill, h } from "./h.js";
import { failure } from "./panel.js";
import { printFilter } from "./filter.js";
import { to } from "./route.js";

/**
 * A dialog with fields; `send` is called once at a time, always with the same attempt.
 * @param {string} title @param {string} label @param {() => string | null} ready why it cannot be sent yet @param {(attempt: string) => Promise<void>} send
 */
function ask(title, fields, label, ready, send) {
  const mine = attempt();
  const says = h("div.says");
  const ok = h("button", { class: "primary", on: { click: async () => {
    const why = ready();
    if (why) return fill(says, h("p.warn", { role: "alert" }, why));
    ok.disabled = true;
    try { await send(mine); dialog.close(); } catch (error) { fill(says, failure(error)); }
    ok.disabled = false;
  } } }, label);
  const dialog = h("dialog", { "aria-label": title }, h("h2", title), fields, says, h("div.row.end", h("button", { on: { click: () => dialog.close() } }, "Do nothing"), ok));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
const reasonField = () => h("input", { id: "reason", autocomplete: "off", maxlength: 200, placeholder: "GitHub outage, INC-2291" });
/** @param {string} text */
const field = (input, text) => h("div.field", h("label", { for: input.id }, text), input);

/** Freezes a selection as a plan; nothing runs yet. @param {import("./api.js").Flags} flags */
export function planDialog(page, flags) {
  const reason = reasonField();
  const mode = h("select", { id: "mode" }, h("option", { value: "safe" }, "safe: only events whose open side effects did not happen"), h("option", { value: "guarded" }, "guarded: also those that may have happened, with the same idempotency key"));
  ask("Plan a replay", h("div", h("p", "Of ", h("code", printFilter(flags) || "all failing events and dead letters of 24 hours"), ". A plan shows what would run; it runs nothing."), field(reason, "Reason, for the audit log"), field(mode, "Mode")), "Make the plan",
    () => reason.value.trim() ? null : "A plan needs a reason.",
    async (attempt_) => {
      /** @type {Map<string, string | string[]>} */
      const all = new Map([["mode", mode.value]]);
      for (const [name, value] of flags) { const old = all.get(name); all.set(name, old === undefined ? value : [old, value].flat()); }
      const plan = await change("plan", { attempt: attempt_, flags: Object.fromEntries(all), reason: reason.value.trim() });
      page.go(to("plan", plan.id));
    });
}

/** Applies a plan: the person types the number of events. @param {() => void} then */
export function applyDialog(plan, then) {
  const reason = reasonField();
  const number = h("input", { id: "confirm", inputmode: "numeric", autocomplete: "off" });
  ask(`Apply ${plan.id}`, h("div", h("p", `${plan.events.planned} events run again: five first, then the rest. It stops when more than 10 % fail again.`), field(number, "Type the number of events"), field(reason, "Reason, for the audit log")), "Apply",
    () => number.value.trim() !== String(plan.events.planned) ? `Type ${plan.events.planned} to confirm.` : reason.value.trim() ? null : "Applying needs a reason.",
    async (attempt_) => { await change(`plan/${plan.id}/apply`, { attempt: attempt_, confirm: Number(number.value), reason: reason.value.trim() }); then(); });
}

/** Stops or cancels a plan. @param {"stop" | "cancel"} verb @param {() => void} then */
export function endDialog(plan, verb, then) {
  const reason = reasonField();
  ask(`${verb === "stop" ? "Stop" : "Cancel"} ${plan.id}`, h("div", h("p", verb === "stop" ? "Events that are queued already run to their end." : "A cancelled plan cannot be applied."), field(reason, "Reason, for the audit log")), verb === "stop" ? "Stop the run" : "Cancel the plan",
    () => reason.value.trim() ? null : "This needs a reason.",
    async (attempt_) => { await change(`plan/${plan.id}/${verb}`, { attempt: attempt_, reason: reason.value.trim() }); then(); });
}
