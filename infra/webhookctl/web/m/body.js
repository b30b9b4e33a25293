// Bodies: indented by their tokens, so that every number and string stays as it was sent; exact; and as bytes.
import { h } from "./h.js";

const LIMIT = 262144;
const printable = (byte) => byte >= 0x20 && byte < 0x7f;

/** Indents JSON without parsing it. */
function pretty(text) {
  const tokens = text.match(/"(?:\\.|[^"\\])*"|[{}[\],:]|[^\s{}[\],:"]+|"/g) ?? [], out = [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.max(0, depth))}`;
  tokens.forEach((token, i) => {
    const next = tokens[i + 1], opens = /^[{[]$/;
    if (opens.test(token)) { depth++; out.push(h("i", token), /^[}\]]$/.test(next) ? "" : line()); }
    else if (token === "}" || token === "]") { depth--; out.push(opens.test(tokens[i - 1]) ? "" : line(),
      h("i", token)); }
    else if (token === ",") out.push(h("i", ","), line());
    else if (token === ":") out.push(h("i", ": "));
    else out.push(next === ":" ? h("span.dim", token) : token);
  });
  return out;
}

function exact(bytes) {
  try { return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes); } catch {
    return Array.from(bytes, (byte) => printable(byte) || byte === 10 ? String.fromCharCode(byte)
      : `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`).join("");
  }
}

function hex(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const text = row.map((byte) => printable(byte) ? String.fromCharCode(byte) : ".").join("");
    const numbers = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${numbers.padEnd(48)} ${text}`);
  }
  return lines.join("\n");
}

/** @param {Uint8Array} bytes @param {string} how `pretty`, `exact` or `hex` */
export function view(bytes, how) {
  const part = bytes.subarray(0, how === "hex" ? LIMIT / 16 : LIMIT);
  const content = how === "hex" ? hex(part) : how === "exact" ? exact(part) : pretty(exact(part));
  return [h(`pre.code.foreign.${how}`, { tabindex: 0, role: "region", "aria-label": `Body, ${how}` }, content),
    part.length < bytes.length ? h("p.dim", "This is the first part. The download has all of it.") : null];
}
