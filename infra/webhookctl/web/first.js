// Runs before anything is drawn: sets the theme, and begins the first reads. `ask` of m/api.js takes the answers.
{
  const stored = (name) => { try { return localStorage.getItem(name) ?? ""; } catch { return ""; } };
  const begun = globalThis.begun = new Map(), token = stored("token");
  document.documentElement.dataset.theme = stored("theme");
  // The main read of each page without an id or a filter.
  const reads = { __proto__: null, "": "status", approvals: "hold.list", dead: "dlq.list", flow: "sources.list",
    inbox: "inbox.list?limit=50", plans: "replay.log?limit=50", quarantine: "quarantine.list",
    sources: "sources.list" };
  const [, page, id, query] = /^#?\/?([^/?]*)\/?([^?]*)\??(.*)/s.exec(location.hash);
  let read = id || query ? "" : reads[page];
  if (page === "event" && /^\w+$/.test(id)) read = `inbox.inspect?id=${id}`;
  // What reads bodies waits for the operator.
  const all = new URLSearchParams(`limit=50&${query}`);
  if (page === "inbox" && query && !/(where|header)=/.test(all)) read = `inbox.list?${all}`;
  if (token) for (const path of ["/session", read && `/api/${read}`].filter(Boolean)) {
    const answer = fetch(path, { headers: { authorization: `Bearer ${token}` } });
    answer.catch(() => {});
    begun.set(path, answer);
  }
}
