// The address is the state: `#/page/id?word=value`. Pages are functions of it.

export function parse(hash) {
  const [where, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page = "", ...id] = where.split("/");
  let decoded = id.join("/");
  try { decoded = decodeURIComponent(decoded); } catch { /* an id that is no encoding is used as it is */ }
  return { page: page || "overview", id: decoded, flags: /** @type {any} */ ([...new URLSearchParams(query)]) };
}

export function to(page, id = "", /** @type {any} */ flags = []) {
  const query = String(new URLSearchParams(flags));
  return `#/${page === "overview" ? "" : page}${id ? `/${encodeURIComponent(id)}` : ""}${query ? `?${query}` : ""}`;
}
/** A link to one thing. */
export const source = (name) => to("source", name);

/** The first value of a flag, or "". */
export const flag = (flags, name) => flags.find(([key]) => key === name)?.[1] ?? "";
export const withFlag = (flags, name, value) =>
  [...flags.filter(([key]) => key !== name), ...(value ? [[name, value]] : [])];
