// @ts-check
// A panel reads one document and draws it. Panels load apart; each keeps its last answer, dimmed, while a newer one comes.
import { Failure } from "./api.js";
import { fill, h } from "./h.js";
import { clock, command } from "./words.js";

/** @typedef {{signal: AbortSignal, read: (name: string, flags?: import("./api.js").Flags) => Promise<import("./api.js").Answer>,
 *   note: (slot: string, answer: import("./api.js").Answer) => void, session: import("./api.js").Session, status: any,
 *   announce: (text: string) => void, title: (text: string) => void, heading: any}} Page */

/** An error of the CLI, with what to do. */
export function failure(error) {
  const f = error instanceof Failure ? error : new Failure(-1, { message: `the page failed: ${error?.message ?? error}` });
  const denied = f.code.startsWith("auth.");
  return h("div", { class: `failure ${denied || f.gone ? "calm" : ""}`, role: "alert" },
    h("p", h("strong", f.message), " ", h("code.dim", f.code)),
    f.details.length ? h("ul", f.details.map((d) => h("li", typeof d === "string" ? d : JSON.stringify(d)))) : null,
    f.note ? h("p.dim", f.note) : null,
    f.tip ? h("p", /^webhookctl /.test(f.tip) ? command(f.tip) : `Tip: ${f.tip}`) : null);
}

/** What stands where nothing is: a sentence, and what to do. @param {...any} more */
export const empty = (text, ...more) => h("div.empty", h("p", text), more.length ? h("p.more", more) : null);

/** @param {number} rows @param {string} [kind] */
export const skeleton = (rows, kind = "rows") => h("div", { class: `skeleton ${kind}`, "aria-hidden": "true" }, Array.from({ length: rows }, () => h("div")));

/**
 * @param {Page} page
 * @param {{title?: any, actions?: any, class?: string, slot: string, wait?: any, read: () => [string, import("./api.js").Flags?] | null,
 *   draw: (doc: any, body: any, answer: import("./api.js").Answer) => void, settled?: (error: any) => void}} how
 */
export function panel(page, how) {
  const body = h("div.body", how.wait ?? skeleton(3));
  const time = h("span.asof.dim");
  const node = h("section", { class: `panel ${how.class ?? ""}`, "aria-busy": "true" },
    how.title || how.actions ? h("header", how.title ? h("h2", how.title) : null, time, how.actions ?? null) : null, body);
  let turn = 0;
  let has = false;
  const box = {
    node, body, doc: /** @type {any} */ (null),
    async load() {
      const what = how.read();
      if (!what) { node.removeAttribute("aria-busy"); fill(body); return; }
      const mine = ++turn;
      node.setAttribute("aria-busy", "true");
      try {
        const answer = await page.read(...what);
        if (mine !== turn) return;
        page.note(how.slot, answer);
        if (!has) fill(body);
        has = true;
        box.doc = answer.doc;
        await how.draw(answer.doc, body, answer);
        node.classList.remove("stale");
        how.settled?.(null);
      } catch (error) {
        if (mine !== turn || page.signal.aborted) return;
        if (has && error instanceof Failure && (error.gone || error.ended)) {
          node.classList.add("stale");
          if (box.doc?.as_of) fill(time, `as of ${clock(box.doc.as_of)}`);
        } else if (how.settled) how.settled(error);
        else { fill(body, failure(error)); has = false; }
      } finally {
        if (mine === turn) node.removeAttribute("aria-busy");
      }
    },
  };
  return box;
}
