// @ts-check
// The address is the state: `#/page/id?word=value`. Pages are functions of it.

/** @typedef {{page: string, id: string, flags: import("./api.js").Flags}} Route */

/** @param {string} hash @returns {Route} */
export function parse(hash) {
  const [where, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page = "", ...id] = where.split("/");
  let decoded = id.join("/");
  try { decoded = decodeURIComponent(decoded); } catch { /* an id that is no encoding is used as it is */ }
  return { page: page || "overview", id: decoded, flags: [...new URLSearchParams(query)] };
}

/** @param {string} page @param {string} [id] @param {import("./api.js").Flags} [flags] */
export function to(page, id = "", flags = []) {
  const query = new URLSearchParams(flags).toString();
  return `#/${page === "overview" ? "" : page}${id ? `/${encodeURIComponent(id)}` : ""}${query ? `?${query}` : ""}`;
}

/** @param {import("./api.js").Flags} flags @param {string} name @returns {string} the first value of a flag, or "" */
export const flag = (flags, name) => flags.find(([key]) => key === name)?.[1] ?? "";
/** @param {import("./api.js").Flags} flags @param {string} name @param {string} value @returns {import("./api.js").Flags} */
export const withFlag = (flags, name, value) => [...flags.filter(([key]) => key !== name), ...(value ? [/** @type {[string, string]} */ ([name, value])] : [])];

/** @param {string} address @param {boolean} [replace] */
export function go(address, replace = false) {
  if (replace) location.replace(address);
  else location.hash = address;
}
