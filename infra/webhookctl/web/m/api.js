// Asks the server. Every read of the page goes through `read`, and every change through `change`.
import { stored } from "./h.js";

/** Names of the positional arguments of reads; the others are called `id`. */
const POSITIONAL = {
  "dlq.inspect": "error", "sources.show": "name", "replay.show": "plan", "replay.status": "plan",
};

/** @typedef {[string, string][]} Flags */

/** An error of the CLI, with its code and its tip. */
export class Failure extends Error {
  constructor(http, error) {
    super(error?.message ?? `the server answered ${http}`);
    this.http = http;
    this.code = String(error?.code ?? "console.answer");
    this.note = error?.note;
    this.tip = error?.tip;
    this.details = error?.details ?? [];
  }
  get gone() { return this.http === 0; }
  get ended() { return this.http === 401; }
}

/** Tells the frame that the process is gone, is back, or that the session has ended. */
export const health = new EventTarget();
let gone = false, mine = "";
/** Another tab can have a newer one. Without storage, it lasts as long as the page. */
const token = () => stored("token") || mine;
function mark(now) {
  if (gone !== now) { gone = now; health.dispatchEvent(new Event(now ? "gone" : "back")); }
}
export const hasToken = () => Boolean(token());

/** What first.js began to read. The first page takes each answer once. */
export const begun = /** @type {Map<string, Promise<Response>>} */ (/** @type {any} */ (globalThis).begun);

/** @param {string} path @param {any} [more] */
async function ask(path, more = {}) {
  let response;
  const early = more.method ? null : begun.get(path);
  begun.delete(path);
  try {
    const headers = { ...(token() ? { authorization: `Bearer ${token()}` } : {}), ...more.headers };
    response = await (early ?? fetch(path, { ...more, headers }));
    more.signal?.throwIfAborted();
  } catch (error) {
    if (more.signal?.aborted) throw error;
    mark(true);
    throw new Failure(0, { code: "console.gone", message: "webhookctl has stopped" });
  }
  mark(false);
  if (response.ok) return response;
  const failure = new Failure(response.status, (await response.json().catch(() => null))?.error);
  if (failure.ended && path !== "/session") {
    stored("token", mine = "");
    health.dispatchEvent(new Event("ended"));
  }
  throw failure;
}

const post = (path, body) =>
  ask(path, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } });

/** The session of the stored token, or that of a code, which is exchanged for a token. */
export async function session(code) {
  const answer = await (code ? post("/session", { code }) : ask("/session"));
  const found = await answer.json();
  if (code) stored("token", mine = found.token);
  return found;
}

/** The flags of a read of one thing. @returns {[string, Flags]} */
export const about = (name, value, more = []) => [name, [[POSITIONAL[name] ?? "id", value], ...more]];
const path = (name, flags) => `/api/${name}${flags.length ? `?${new URLSearchParams(flags)}` : ""}`;

export async function read(name, flags = [], signal) {
  const response = await ask(path(name, flags), { signal });
  const doc = await response.json();
  const number = (head) => Number(response.headers.get(head));
  return {
    doc, at: new Date(), command: decodeURIComponent(response.headers.get("x-command") ?? ""),
    calls: number("x-calls"), units: number("x-read-units"),
  };
}

/** Reads a stream of JSON lines until it ends. */
export async function stream(name, flags, signal, line) {
  const reader = (await ask(path(name, flags), { signal })).body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const text of lines) if (text.trim()) line(JSON.parse(text));
  }
}

/** Changes something. The server answers the same attempt twice with the same answer. */
export async function change(where, body) {
  const text = await (await post(`/api/${where}`, body)).text();
  return text.trim() ? JSON.parse(text) : {};
}

/** The exact bytes of a body. */
export const bytes = async (id) =>
  new Uint8Array(await (await ask(`/api/body/${encodeURIComponent(id)}`)).arrayBuffer());
