// @ts-check
// The only maker of elements. Strings become text, never markup; tags that load or run something do not exist here.
import { plain, shown } from "./shown.js";

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */

const HTML = new Set(("a abbr aside b br i button caption code dd details dialog div dl dt em fieldset footer h1 h2 h3 header " +
  "hr input kbd label legend li main mark nav ol option p pre progress option section select small span strong summary table tbody " +
  "td textarea tfoot th thead time tr ul").split(" "));
const SVG = new Set("svg g path rect circle line polygon text title defs pattern".split(" "));
const ATTRIBUTES = new Set(("class id role tabindex title href type value placeholder for name min max step scope colspan " +
  "datetime open hidden disabled checked autocomplete autocapitalize spellcheck lang rows maxlength inputmode viewBox width height x y x1 x2 y1 y2 " +
  "d points r cx cy rx transform text-anchor dominant-baseline patternUnits patternTransform preserveAspectRatio fill focusable").split(" "));
const NS = "http://www.w3.org/2000/svg";

/** @param {Element} node @param {string} name */
export function set(node, name, value) {
  if (value === null || value === undefined || value === false) return node.removeAttribute(name);
  const text = value === true ? "" : plain(String(value));
  if (!ATTRIBUTES.has(name) && !/^(aria|data)-[a-z-]+$/.test(name)) throw new Error(`h: attribute ${name}`);
  if (name === "href" && !/^(#|\/(?!\/))/.test(text)) throw new Error("h: a link leaves the console");
  if (name === "fill" && !/^(none|url\(#[a-z]+\))$/.test(text)) throw new Error("h: fill");
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** @param {Node} node @param {Child[]} children */
function add(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(node, child);
    else node.appendChild(child instanceof Node ? child : shown(String(child)));
  }
}

/**
 * Makes an element: `h("p.dim", {title}, "text")`. `on` holds listeners, all other attributes are from a fixed list.
 * @param {string} what a tag with classes, written by us @param {...any} rest attributes, if there are any, and children @returns {any}
 */
export function h(what, ...rest) {
  const [tag, ...classes] = what.split(".");
  const svg = SVG.has(tag);
  if (!svg && !HTML.has(tag)) throw new Error(`h: tag ${tag}`);
  const node = svg ? document.createElementNS(NS, tag) : document.createElement(tag);
  if (tag === "button") node.setAttribute("type", "button");
  if (classes.length) node.setAttribute("class", classes.join(" "));
  if (rest[0]?.constructor === Object) {
    for (const [name, value] of Object.entries(rest.shift())) {
      if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
      else set(node, name, value);
    }
  }
  add(node, rest);
  return node;
}

/** Replaces the children of a node. @param {Element} node @param {...Child} children */
export function fill(node, ...children) {
  const made = document.createDocumentFragment();
  add(made, children);
  node.replaceChildren(made);
  return node;
}

/** Writes text only if it differs, so that a tick does not touch what is the same. @param {Element} node @param {string} text */
export function say(node, text) {
  if (node.textContent !== text) fill(node, text);
}

/**
 * Keeps one child for each key, in the order of `items`, and moves only what has another place.
 * @template T @param {Element} parent @param {T[]} items @param {(item: T) => string} key
 * @param {(item: T) => any} make @param {(node: any, item: T) => void} [update]
 */
export function keep(parent, items, key, make, update) {
  /** @type {Map<string, Element>} */
  const old = parentKeys.get(parent) ?? new Map();
  const now = new Map();
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = key(item);
    let node = old.get(k);
    if (node) update?.(node, item);
    else node = make(item);
    now.set(k, node);
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(/** @type {Element} */ (node), at);
  }
  for (const [k, node] of old) if (now.get(k) !== node) node.remove();
  parentKeys.set(parent, now);
}
/** @type {WeakMap<Element, Map<string, Element>>} */
const parentKeys = new WeakMap();
