// A panel reads one document and draws it. Panels load apart; each keeps its last answer while a newer one comes.
import { Failure } from "./api.js";
import { fill, h } from "./h.js";
import { source, to } from "./route.js";
import { table } from "./table.js";
import { ago, clock, command, short } from "./words.js";

/** An error of the CLI, with what to do. */
export function failure(error) {
  const f = error instanceof Failure ? error : new Failure(-1,
    { message: `the page failed: ${error?.message ?? error}` });
  const calm = f.code.startsWith("auth.") || f.gone;
  return h(`div.failure${calm ? ".calm" : ""}`, { role: "alert" },
    h("p", h("b", f.message), " ", h("code.dim", f.code)),
    f.details.map((d) => h("p", typeof d === "string" ? d : JSON.stringify(d))),
    f.note ? h("p.dim", f.note) : null,
    f.tip ? h("p", /^webhookctl /.test(f.tip) ? command(f.tip) : `Tip: ${f.tip}`) : null);
}

/** What stands where nothing is: a sentence, and what to do. */
export const empty = (text, ...more) => h("div.empty", h("p", text), more.length ? h("p.more", more) : null);
export const note = (...text) => h("p.dim", text);
export const lead = (...text) => h("p.lead.dim", text);
export const section = (title, ...content) => h("section.panel", h("h2", title), content);
/** The box at the top of one thing: what to do next. */
export const next = (tone, label, text, more, ...actions) => h(`section.next.${tone}`, { "aria-label": label },
  h("div", h("p.big", text), h("p.dim", more)), h("div.do", actions));
export const skeleton = (rows, kind = "") =>
  h(`div.skeleton.${kind}`, { "aria-hidden": "true" }, Array.from({ length: rows }, () => h("div")));
/** Links of which one is in force: their text, their address, and whether they are. */
export const segments = (box, links) =>
  fill(box, links.map(([text, href, on]) => h("a", { href, "aria-current": on ? "true" : null }, text)));

/**
 * `read` is the name of the read and its flags, or null; `draw(doc, body, answer)` draws the document. `wait` is the
 * number of lines of the skeleton, and their kind. @param {any} page @param {any} how
 */
export function panel(page, how) {
  const { slot = "main", title, actions, kind = "", wait = [4], read, draw, settled } = how;
  const body = h("div.body", skeleton(wait[0], wait[1]));
  const time = h("span.asof.dim");
  const node = h(`section.panel${kind}`, { "aria-busy": "true" },
    title ? h("header", h("h2", title), time, actions) : null, body);
  let turn = 0, has = false;
  const box = {
    node, body, doc: null,
    async load() {
      const what = read(), mine = ++turn;
      if (!what) { set_busy(false); fill(body); return; }
      set_busy(true);
      try {
        const answer = await page.read(...what);
        if (mine !== turn) return;
        page.note(slot, answer);
        if (!has) fill(body);
        has = true;
        box.doc = answer.doc;
        await draw(answer.doc, body, answer);
        node.classList.remove("stale");
        settled?.(null);
      } catch (error) {
        if (mine !== turn || page.signal.aborted) return;
        if (has && error instanceof Failure && (error.gone || error.ended)) {
          node.classList.add("stale");
          if (box.doc.as_of) fill(time, `as of ${clock(box.doc.as_of)}`);
        } else if (settled) { if (!has) fill(body); settled(error); }
        else { fill(body, failure(error)); has = false; }
      } finally {
        if (mine === turn) set_busy(false);
      }
    },
  };
  const set_busy = (on) => on ? node.setAttribute("aria-busy", "true") : node.removeAttribute("aria-busy");
  return box;
}

export const eventPage = (e) => to("event", e.id);
export const eventId = (e) => h("a.go.mono", { href: eventPage(e) }, short(e.id));
export const eventColumns = (at) =>
  [["Age", "w-age.n", (e) => ago(e.received_at, at.asOf)], ["Event", "w-id", eventId]];
export const sourceLink = (name, kind = "") => h(`a${kind}`, { href: source(name) }, name);

/**
 * A panel with a table of the items of a document. `columns(at)` has the time of the document in `at.asOf`; `order`
 * sorts; `after(doc)` stands below the table; `none` is what stands for no items. @param {any} page @param {any} all
 */
export function listing(page, all) {
  const { label = all.title, columns, key = (i) => i.id, link, order, none, after, ...how } = all;
  const at = { asOf: "" };
  const rows = table({ label, columns: columns(at), key, link });
  const below = h("div");
  const box = panel(page, { ...how, draw: (doc, body) => {
    at.asOf = doc.as_of;
    const items = order ? [...doc.items].sort(order) : doc.items;
    if (after) fill(below, after(doc));
    if (!items.length) return fill(body, none);
    if (!rows.node.isConnected) fill(body, rows.node, below);
    rows.show(items);
  } });
  return Object.assign(box, { names: () => rows.items.map(key), redraw: () => rows.show(rows.items) });
}
