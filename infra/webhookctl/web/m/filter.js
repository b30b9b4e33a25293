// @ts-check
// The filter is the CLI's flags as `word:value`, quoted as a shell would.

/** @typedef {import("./api.js").Flags} Flags */

/** @param {string} text @returns {Flags} */
export function parseFilter(text) {
  /** @type {Flags} */
  const flags = [];
  const words = text.match(/(?:"(?:\\.|[^"\\])*"?|'[^']*'?|\\.|[^\s"'\\])+/g) ?? [];
  for (const raw of words) {
    const word = raw.replace(/"((?:\\.|[^"\\])*)"?|'([^']*)'?|\\(.)/g, (_, double, single, one) =>
      double !== undefined ? double.replace(/\\(.)/g, "$1") : single ?? one);
    const at = word.indexOf(":");
    if (at > 0) flags.push([word.slice(0, at).replace(/^-+/, ""), word.slice(at + 1)]);
    else if (word) flags.push(["id", word]);
  }
  return flags;
}

/** @param {string} value */
const quoted = (value) => (/^[^\s"'\\]*$/.test(value) ? value : `"${value.replace(/["\\]/g, "\\$&")}"`);
/** @param {Flags} flags @returns {string} */
export const printFilter = (flags) => flags.map(([name, value]) => `${name}:${quoted(value)}`).join(" ");
/** Flags that make the CLI read bodies or requests of every event. @param {Flags} flags */
export const readsBodies = (flags) => flags.some(([name]) => name === "where" || name === "header");
