// Text from senders can hold characters that are invisible, that change the direction of a line, or that control a
// terminal. The page shows them as code points, as `output::safe` does in the terminal.

// C0 and C1 without tab and line feed, format characters, fillers, selectors, tags, separators, and non-characters.
const HIDDEN = RegExp("[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\p{Cf}\\p{Default_Ignorable_Code_Point}\\u2028\\u2029" +
  "\\ufdd0-\\ufdef\\ufff0-\\uffff\\ud800-\\udfff]", "u");
const EACH = new RegExp(HIDDEN.source, "gu");

/** @param {string} c @returns {string} the symbol or the code point of one hidden character */
function named(c) {
  const code = /** @type {number} */ (c.codePointAt(0));
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** @param {string} text @returns {string} the text with hidden characters spelled out, for attributes and titles */
export function plain(text) {
  return HIDDEN.test(text) ? text.replace(EACH, (c) => (c < " " || c === "\x7f" ? named(c) : `<${named(c)}>`)) : text;
}

/** @param {string} text @returns {Node} a text node, or a fragment in which hidden characters are boxes */
export function shown(text) {
  if (!HIDDEN.test(text)) return document.createTextNode(text);
  const all = document.createDocumentFragment();
  let from = 0;
  for (const found of text.matchAll(EACH)) {
    all.append(text.slice(from, found.index));
    const box = document.createElement("span");
    box.className = "cp";
    box.textContent = named(found[0]);
    all.append(box);
    from = found.index + found[0].length;
  }
  all.append(text.slice(from));
  return all;
}
