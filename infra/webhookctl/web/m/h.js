// The only maker of elements. Strings become text, never markup; tags that load or run something do not exist here.
import { plain, shown } from "./shown.js";

const set_of = (text) => new Set(text.split(" "));
const HTML = set_of("a b button code dd details dialog div dl dt footer h1 h2 h3 header i input kbd label li main " +
  "nav ol option p pre section select span strong summary table tbody td th thead time tr ul");
const SVG = set_of("svg g path rect circle line text title defs pattern");
const ATTRIBUTES = set_of("class id role tabindex title href type value placeholder for scope datetime open hidden " +
  "disabled checked autocomplete autocapitalize maxlength inputmode viewBox width height x y x1 x2 y1 y2 " +
  "d r cx cy rx patternUnits patternTransform preserveAspectRatio fill");

export function set(node, name, value) {
  if (value === null || value === undefined || value === false) return node.removeAttribute(name);
  const text = value === true ? "" : plain(String(value));
  if (!ATTRIBUTES.has(name) && !/^(aria|data)-[a-z]+$/.test(name)) throw new Error(`h: attribute ${name}`);
  if (name === "href" && !/^(#|\/(?!\/))/.test(text)) throw new Error("h: a link leaves the console");
  if (name === "fill" && !/^url\(#[a-z]+\)$/.test(text)) throw new Error("h: fill");
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

function add(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(node, child);
    else node.appendChild(child instanceof Node ? child : shown(String(child)));
  }
}

/**
 * Makes an element: `h("p.dim", { title }, "text")`. `on` holds listeners; all other attributes are from a fixed list.
 * @param {string} what a tag with classes, written by us @param {...any} rest attributes, and children @returns {any}
 */
export function h(what, ...rest) {
  const [tag, ...classes] = what.split(".");
  const svg = SVG.has(tag);
  if (!svg && !HTML.has(tag)) throw new Error(`h: tag ${tag}`);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  if (tag === "button") set(node, "type", "button");
  if (tag === "svg") set(node, "aria-hidden", "true");
  if (tag === "input") for (const name of ["autocomplete", "autocapitalize"]) set(node, name, "off");
  const names = classes.filter(Boolean).join(" ");
  if (names) node.setAttribute("class", names);
  if (rest[0]?.constructor === Object) {
    for (const [name, value] of Object.entries(rest.shift())) {
      if (name === "on") for (const [event, run] of Object.entries(value)) node.addEventListener(event, run);
      else set(node, name, value);
    }
  }
  add(node, rest);
  return node;
}

/** A button. @param {any} text @param {(event: any) => any} click @param {string} [kind] classes, such as `.small` */
export const button = (text, click, kind = "", more = {}) => h(`button${kind}`, { ...more, on: { click } }, text);

/** Replaces the children of a node. */
export function fill(node, ...children) {
  const made = document.createDocumentFragment();
  add(made, children);
  node.replaceChildren(made);
  return node;
}

/** Writes text only if it differs, so that a tick does not touch what is the same. */
export function say(node, text) {
  if (node.textContent !== text) fill(node, text);
}

/** Draws again when the width changes. The nodes that `draw(width)` returns replace the content. */
export function sized(box, draw) {
  let width = 0;
  const again = () => { if (width) fill(box, draw(width)); };
  new ResizeObserver(([entry]) => {
    const next = Math.floor(entry.contentRect.width);
    if (next !== width) { width = next; again(); }
  }).observe(box);
  return again;
}

/** @type {WeakMap<Element, Map<string, Element>>} */
const kept = new WeakMap();
/** Keeps one child for each key, in the order of `items`, and moves only what has another place. */
export function keep(parent, items, key, make, update) {
  const old = kept.get(parent) ?? new Map(), now = new Map();
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = key(item);
    let node = old.get(k);
    if (node) update?.(node, item);
    else node = make(item);
    now.set(k, node);
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  }
  for (const [k, node] of old) if (now.get(k) !== node) node.remove();
  kept.set(parent, now);
}

/** A setting of this browser, which works without storage too. */
export function stored(name, value) {
  try {
    return value === undefined ? localStorage.getItem(name) : localStorage.setItem(name, value);
  } catch { return null; }
}
