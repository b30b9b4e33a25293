// @ts-check
// Asks the server. Every read of the page goes through `read`, and every change through `change`.

const TOKEN = "token";
/** Names of the positional arguments of reads. */
const POSITIONAL = new Map(Object.entries({
  "inbox.inspect": "id", "inbox.body": "id", "dlq.inspect": "error", "quarantine.inspect": "id", "sources.show": "name",
  "replay.show": "plan", "replay.status": "plan", "reconcile.report": "id", verify: "id",
}));

/** @typedef {{token?: string, until: string, context: string, region: string|null, account: string|null, who: string|null,
 *   write: boolean, protected: boolean, local: boolean}} Session */
/** @typedef {[string, string][]} Flags */
/** @typedef {{doc: any, command: string, calls: number, units: number, at: Date}} Answer */

/** An error of the CLI, with its code and its tip. */
export class Failure extends Error {
  /** @param {number} http */
  constructor(http, error) {
    super(error?.message ?? `the server answered ${http}`);
    this.http = http;
    this.code = String(error?.code ?? "console.answer");
    this.note = error?.note ?? null;
    this.tip = error?.tip ?? null;
    this.docs = error?.docs ?? null;
    this.details = error?.details ?? [];
  }
  get gone() { return this.http === 0; }
  get ended() { return this.http === 401; }
}

const kept = () => { try { return localStorage.getItem(TOKEN); } catch { return null; } };
export const forget = () => { try { localStorage.removeItem(TOKEN); } catch { /* no storage */ } };

/** @type {EventTarget} tells the frame that the process is gone, is back, or that the session has ended */
export const health = new EventTarget();
let gone = false;
/** @param {boolean} now */
function mark(now) {
  if (gone !== now) { gone = now; health.dispatchEvent(new Event(now ? "gone" : "back")); }
}

/** @param {string} path @param {RequestInit} [more] */
export async function ask(path, more = {}) {
  const token = kept();
  let response;
  try {
    response = await fetch(path, { ...more, headers: { ...(token ? { authorization: `Bearer ${token}` } : {}), ...(more.headers ?? {}) } });
  } catch (error) {
    if (more.signal?.aborted) throw error;
    mark(true);
    throw new Failure(0, { code: "console.gone", message: "webhookctl has stopped" });
  }
  mark(false);
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  const failure = new Failure(response.status, body?.error);
  if (failure.ended && path !== "/session") { forget(); health.dispatchEvent(new Event("ended")); }
  throw failure;
}

/** @param {string} path */
const post = (path, body) => ask(path, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } });

/** Exchanges the code of an address for a token. @param {string} code @returns {Promise<Session>} */
export async function exchange(code) {
  const session = await (await post("/session", { code })).json();
  try { localStorage.setItem(TOKEN, session.token); } catch { /* the session lasts as long as the page */ }
  return session;
}
/** @returns {Promise<Session>} */
export const session = async () => (await ask("/session")).json();
export const hasToken = () => kept() !== null;

/** @param {string} name @param {Flags} flags */
function path(name, flags) {
  const query = new URLSearchParams(flags).toString();
  return `/api/${name}${query ? `?${query}` : ""}`;
}
/** The flags of a read with a positional argument. @param {string} name @param {string} value @param {Flags} [more] @returns {Flags} */
export const about = (name, value, more = []) => [[POSITIONAL.get(name) ?? "id", value], ...more];

/** Reads a document. @param {string} name @param {Flags} [flags] @param {AbortSignal} [signal] @returns {Promise<Answer>} */
export async function read(name, flags = [], signal) {
  const response = await ask(path(name, flags), { signal });
  const doc = await response.json();
  const number = (head) => Number(response.headers.get(head) ?? 0);
  return {
    doc, at: new Date(), command: decodeURIComponent(response.headers.get("x-command") ?? ""),
    calls: number("x-calls") || doc.cost?.calls || 0, units: number("x-read-units") || doc.cost?.read_units || 0,
  };
}

/** Reads a stream of JSON lines until it ends. @param {string} name @param {Flags} flags @param {AbortSignal} signal @param {(line: any) => void} line */
export async function stream(name, flags, signal, line) {
  const response = await ask(path(name, flags), { signal });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
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

/** Changes something: plans, and what is done with a plan. @param {string} where */
export async function change(where, body) {
  const text = await (await post(`/api/${where}`, body)).text();
  return text.trim() ? JSON.parse(text) : {};
}
/** A fresh number of an attempt: the server answers the same number twice with the same answer. */
export const attempt = () => crypto.randomUUID();

/** The exact bytes of a body. @param {string} id @returns {Promise<ArrayBuffer>} */
export const bytes = async (id) => (await ask(`/api/body/${encodeURIComponent(id)}`)).arrayBuffer();
