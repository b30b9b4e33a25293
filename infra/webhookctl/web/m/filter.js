// The filter is the CLI's flags as `word:value`, quoted as a shell would.

/** @returns {import("./api.js").Flags} */
export function parseFilter(text) {
  /** @type {import("./api.js").Flags} */
  const flags = [];
  for (const raw of text.match(/(?:"(?:\\.|[^"\\])*"?|'[^']*'?|\\.|[^\s"'\\])+/g) ?? []) {
    const word = raw.replace(/"((?:\\.|[^"\\])*)"?|'([^']*)'?|\\(.)/g, (_, double, single, one) =>
      double !== undefined ? double.replace(/\\(.)/g, "$1") : single ?? one);
    const at = word.indexOf(":");
    if (at > 0) flags.push([word.slice(0, at).replace(/^-+/, ""), word.slice(at + 1)]);
    else if (word) flags.push(["id", word]);
  }
  return flags;
}

const quoted = (value) => /^[^\s"'\\]*$/.test(value) ? value : `"${value.replace(/["\\]/g, "\\$&")}"`;
export const printFilter = (flags) => flags.map(([name, value]) => `${name}:${quoted(value)}`).join(" ");
/** Whether the CLI must read bodies or requests of every event. */
export const readsBodies = (flags) => flags.some(([name]) => name === "where" || name === "header");
