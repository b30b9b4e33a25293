// @ts-check
// Bodies: indented by their tokens, so that every number and string stays as it was sent; exact; and as bytes.
import { h } from "./h.js";

const LIMIT = 262144;

/** Indents JSON without parsing it. @param {string} text @returns {any[]} */
export function pretty(text) {
  const tokens = text.match(/"(?:\\.|[^"\\])*"|[{}[\],:]|[^\s{}[\],:"]+|"/g) ?? [];
  /** @type {any[]} */
  const out = [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.max(0, depth))}`;
  tokens.forEach((token, i) => {
    const next = tokens[i + 1];
    if (token === "{" || token === "[") { depth++; out.push(h("i", token)); if (next !== "}" && next !== "]") out.push(line()); }
    else if (token === "}" || token === "]") { depth--; const before = tokens[i - 1]; out.push(before === "{" || before === "[" ? "" : line(), h("i", token)); }
    else if (token === ",") out.push(h("i", ","), line());
    else if (token === ":") out.push(h("i", ": "));
    else out.push(token.startsWith('"') && next === ":" ? h("span.k", token) : h("span.v", token));
  });
  return out;
}

/** @param {Uint8Array} bytes @returns {string} */
export function exact(bytes) {
  try { return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes); } catch {
    let text = "";
    for (const byte of bytes) text += byte >= 0x20 && byte < 0x7f || byte === 10 ? String.fromCharCode(byte) : `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
    return text;
  }
}

/** @param {Uint8Array} bytes @returns {string} */
export function hex(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    lines.push(`${at.toString(16).padStart(6, "0")}  ${row.map((b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(48)} ${row.map((b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : ".")).join("")}`);
  }
  return lines.join("\n");
}

/** @param {Uint8Array} bytes @param {"pretty" | "exact" | "hex"} how */
export function view(bytes, how) {
  const cut = bytes.length > LIMIT;
  const part = cut ? bytes.subarray(0, how === "hex" ? LIMIT / 16 : LIMIT) : bytes;
  const content = how === "hex" ? hex(part) : how === "exact" ? exact(part) : pretty(exact(part));
  return [h("pre", { class: `code ${how}`, tabindex: 0, role: "region", "aria-label": `Body, ${how}` }, content), cut ? h("p.dim", "This is the first part. The download has all of it.") : null];
}
