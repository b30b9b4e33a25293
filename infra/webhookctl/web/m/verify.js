// The six steps of a verification, as `webhookctl verify` prints them.
import { about, button, failure, fill, h, mark, note, num, read, span, words } from "./kit.js";

function time(t) {
  if (!t) return "no time is signed";
  if (t.age_s === null) return String(t.value);
  const apart = t.age_s < 0 ? `${span(-t.age_s)} ahead of receipt` : `${span(t.age_s)} older than receipt`;
  return `${t.value}, ${apart}; tolerance ${span(t.tolerance_s)}`;
}

function steps(v) {
  const signed = v.signed_string, tried = v.secrets_tried ?? [];
  const good = (ok) => ok === null ? ["ring", "dim"] : ok ? ["circle", "ok"] : ["square", "bad"];
  /** @type {[string, boolean | null, any][]} */
  const all = [
    ["Preset", true, [v.preset, v.variant === "default" ? "" : `, ${v.variant}`,
      `: proves ${words(v.proves ?? "nothing")}`]],
    ["Signature", v.signatures_in_header > 0, [`${num(v.signatures_in_header)} in `, h("code", v.header ?? v.place
      ?? "the request"),
      v.signatures.map((s) => [" ", h("code", s)])]],
    ["Time", v.timestamp ? v.timestamp.ok : null, time(v.timestamp)],
    ["Signed text", signed ? null : false, signed ? [h("code", signed.template), `, ${num(signed.bytes)} bytes`]
      : "cannot be read"],
    ["Secrets", tried.some((s) => s.matches), tried.length ? tried.map((s) => h("div", `${s.name}, `,
      h("code", s.fingerprint),
      s.usable ? [" gives ", h("code", s.gives ?? "–"), s.matches ? " and matches" : " and does not match"]
        : " is no key of this scheme")) : "none"],
    ["Near misses", v.near_miss ? false : null, v.near_miss?.text ?? (v.valid ? "not searched"
      : "none of the usual causes fits")],
  ];
  return [h("ol.steps6", all.map(([name, ok, text], i) => h("li", mark(.../** @type {[string, string]} */ (good(ok))),
    h("span.dim", `${i + 1} ${name}`), h("div", text)))), h("p", h("b", v.verdict))];
}

/** A button that explains the signature of a stored request. */
export function explain(id) {
  const box = h("div", button("Verify it step by step", async () => {
    try { fill(box, steps((await read(...about("verify", id))).doc)); } catch (error) { fill(box, failure(error)); }
  }), note("This reads the secrets of the source, and never shows them. The same in a terminal: ",
    h("code", `webhookctl verify ${id}`)));
  return box;
}
