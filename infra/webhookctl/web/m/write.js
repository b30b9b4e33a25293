// Changes, which only a console with `--write` makes. Each needs a reason, and shows the command that does the same.
import { printFilter } from "./filter.js";
import { about, button, change, command, Failure, failure, fill, h, plural, read, to, waits } from "./kit.js";

/**
 * A dialog that makes one change. `where` is the path of the change; `flags` are its flags; `count`, if there is
 * one, must be typed; `same` is the command of a terminal. Until `see` has what to decide about, the button is off.
 * @param {{title: string, text: any, label: string, where: string, same?: string, flags?: () => any, more?: any,
 *   count?: number, then?: (doc: any) => any, see?: () => Promise<any>}} how
 */
function ask({ title, text, label, where, same, flags = () => ({}), more, count, then, see }) {
  const attempt = crypto.randomUUID(), says = h("div"), after = h("p", text);
  const field = (id, name, input) => h("div.field", h("label", { for: id }, name), input);
  const reason = h("input", { id: "reason", maxlength: 200,
    placeholder: "GitHub outage, INC-2291" });
  const number = h("input", { id: "confirm", inputmode: "numeric" });
  const ok = button(label, async () => {
    const why = reason.value.trim(), typed = number.value.trim();
    if (count !== undefined && typed !== String(count)) return fill(says, h("p.warn", { role: "alert" },
      `Type ${count} to confirm.`));
    if (!why) return fill(says, h("p.warn", { role: "alert" }, "This needs a reason."));
    ok.disabled = true;
    try {
      const body = { attempt, reason: why, flags: flags(), ...(count === undefined ? {} : { confirm: Number(typed) }) };
      const answer = await change(where, body);
      dialog.close();
      then?.(answer);
    } catch (error) { fill(says, failure(error)); }
    ok.disabled = false;
  }, ".primary");
  const dialog = h("dialog", { "aria-label": title }, h("h2", title), after,
    count === undefined ? null : field("confirm", "Type the number of events", number),
    field("reason", "Reason, for the audit log", reason), more, says,
    same ? h("p.dim", "The same in a terminal: ", command(same)) : null,
    h("div.row.end", button("Do nothing", () => dialog.close()), ok));
  dialog.addEventListener("close", () => dialog.remove());
  ok.disabled = !!see;
  see?.().then((all) => { after.before(all); ok.disabled = false; }, (error) => fill(says, failure(error)));
  document.body.append(dialog);
  dialog.showModal();
}

/** Freezes a selection as a plan; nothing runs yet. */
function planDialog(page, flags, mode = "safe") {
  const select = h("select", { id: "mode" },
    h("option", { value: "safe" }, "safe: only events whose open side effects did not happen"),
    h("option", { value: "guarded" }, "guarded: also those that may have happened, with the same idempotency key"));
  select.value = mode;
  const selection = flags.map(([name, value]) =>
    ` --${name} ${/^[\w:.-]+$/.test(value) ? value : `'${value.replace(/'/g, "'\\''")}'`}`);
  ask({
    title: "Plan a replay", label: "Make the plan", where: "plan", same: `webhookctl replay plan${selection.join("")}`,
    text: ["Of ", h("code", printFilter(flags) || "all failing events and dead letters of 24 hours"),
      ". A plan shows what would run; it runs nothing."],
    more: h("div.field", h("label", { for: "mode" }, "Mode"), select),
    flags: () => {
      const all = new Map([["mode", /** @type {any} */ (select.value)]]);
      for (const [name, value] of flags) all.set(name, all.has(name) ? [all.get(name), value].flat() : value);
      return Object.fromEntries(all);
    },
    then: (plan) => page.go(to("plan", plan.id)),
  });
}
/** A button that plans, if the console may write. @param {any} [key] the key that presses it */
export const planButton = (page, flags, mode, key) => page.session.write
  ? button(["Plan a replay…", key ? h("kbd", key) : null], () => planDialog(page, flags(), mode)) : null;

export const applyButton = (plan, then) => button("Apply…", () => ask({
  title: `Apply ${plan.id}`, label: "Apply", where: `plan/${plan.id}/apply`, then, count: plan.events.planned,
  same: `webhookctl replay apply ${plan.id}`,
  text: `${plural(plan.events.planned, "event runs", "events run")} again: five first, then the rest. ` +
    "The replay stops when more than 10 % fail again.",
}), ".primary");
export const stopButton = (plan, then) => button("Stop…", () => ask({
  title: `Stop ${plan.id}`, label: "Stop the run", where: `plan/${plan.id}/stop`, then,
  text: "Events that are queued already run to their end. The plan can be applied again.",
}));
export const cancelButton = (plan, then) => button("Cancel…", () => ask({
  title: `Cancel ${plan.id}`, label: "Cancel the plan", where: `plan/${plan.id}/cancel`, then,
  same: `webhookctl replay cancel ${plan.id}`, text: "A cancelled plan cannot be applied.",
}));

/** The decision on a quarantined event, or on the hold that is shown. */
export const decideButtons = ({ id, hold }, then) =>
  /** @type {any[][]} */
  (hold ? [
  ["hold approve", "Approve", "This approves exactly that. Anything else is held again.", async () => {
    const { doc } = await read(...about("hold.show", id));
    if (doc.hold !== hold.id) throw new Failure(409, { code: "hold.moved", message: "another hold waits now" });
    return waits(doc);
  }],
  ["hold reject", "Reject", "The event becomes a dead letter, without the effect."],
] : [
  ["quarantine release", "Release", "Its actions run, as for any other event."],
  ["quarantine discard", "Discard", "Its actions never run. The event and its body stay until they expire."],
]).map(([verb, name, text, see]) => button(`${name}…`, () => ask({
  title: `${name} the event`, label: name, text, then, see, where: verb.replace(" ", "."),
  flags: () => ({ id, confirm: hold?.id }),
  same: `webhookctl ${verb} ${id}${hold ? ` --confirm ${hold.id} -m "…"` : ""}`,
})));

/** Pauses a source, or resumes it. */
export function pauseButton(doc, then) {
  const verb = doc.paused ? "resume" : "pause", name = doc.paused ? "Resume" : "Pause";
  return button(`${name}…`, () => ask({
    title: `${name} ${doc.source}`, label: `${name} the source`, where: `sources.${verb}`, then,
    flags: () => ({ name: doc.source }), same: `webhookctl sources ${verb} ${doc.source}`,
    text: doc.paused ? "Events that waited run again."
      : "Mitt still stores its events, and runs no action until you resume it.",
  }));
}

/** Lets requests in that match a secret in use: a dry run says how many there are. */
export const reverifyButton = (source, then) => button("Reverify…", async (event) => {
  const at = event.currentTarget;
  try {
    const dry = { attempt: crypto.randomUUID(), reason: "dry run", flags: { source, "dry-run": true } };
    const { sources } = await change("quarantine.reverify", dry);
    const n = sources.flatMap((s) => Object.values(s.matches)).reduce((all, one) => all + one, 0);
    ask({
      title: `Reverify requests of ${source}`, label: "Store them", where: "quarantine.reverify", then, count: n,
      flags: () => ({ source }), same: `webhookctl quarantine reverify -s ${source}`,
      text: [plural(n, "request matches", "requests match"),
        " a secret in use now. Mitt stores their events, and their actions run."],
    });
  } catch (error) { at.after(failure(error)); }
});
