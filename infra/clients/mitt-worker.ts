// A worker of Mitt: claims events of a queue, works on each under a lease, and settles it.
//
// Copy this file into your project. It needs no package. Node 22.18 and later run it as it is.

import { createHash, createHmac } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const MARGIN = 10_000; // Milliseconds between the end of a call and the end of the lease.

export type Credentials = { accessKeyId: string; secretAccessKey: string; sessionToken?: string };
export type Settings = {
  api: string; queue: string; name: string; region?: string; leaseSeconds?: number;
  credentials?: () => Credentials | Promise<Credentials>; // Default: the variables AWS_ACCESS_KEY_ID and so on.
};
export type Call = { key: string; traceparent: string; timeout: number };
export type Result = { result: "done" | "not" | "unknown" | "refused"; note?: string };
export type Plan = { summary?: string; target?: string; amount?: number | string; sha256?: string; full?: string };
export type EffectOptions = {
  keys: "honoured" | "honoured-with-failures" | "ignored" | "ask";
  plan?: Plan; // What the handler would do.
  search?: (key: string) => Promise<string | undefined>; // With keys "ask": returns a note if the effect happened.
};
type Fields = Record<string, any>;
type Handler = (event: Event) => unknown;

export const done = (note?: string | null): Result => ({ result: "done", note: note ?? "" });
export const not = (): Result => ({ result: "not" }); // The call had no effect.
export const unknown = (): Result => ({ result: "unknown" });
export const refused = (note?: string): Result => ({ result: "refused", note });

/** Ends the work on an event. With "retry" it comes again; else it becomes a dead letter. */
export class Ended extends Error {
  outcome: "retry" | "permanent" | "unknown";
  after: number | undefined;
  constructor(outcome: Ended["outcome"], message = "", after?: number) {
    super(message);
    this.outcome = outcome;
    this.after = after;
  }
}

/** Mitt refused a request. After a status of 409, another worker can have the event: do not call other systems. */
export class Refused extends Error {
  status: number;
  code: string;
  constructor(status: number, code: string, message: string) {
    super(`${status} ${code}: ${message}`);
    this.status = status;
    this.code = code;
  }
}

/** A rule holds the effect. The event comes again after the approval, with the plan: see `Event.approved`. */
export class Held extends Refused {
  constructor(effect: string, expires: string) {
    super(409, "held", `effect ${effect} waits for an approval until ${expires}`);
  }
}

/** Returns the headers of a request with Signature Version 4. */
export function signed(url: URL, body: string, region: string, credentials: Credentials, at = new Date()): Fields {
  const date = at.toISOString().replace(/[-:]|\.\d+/g, "");
  const headers: Fields = { "content-type": "application/json", host: url.host, "x-amz-date": date };
  if (credentials.sessionToken) headers["x-amz-security-token"] = credentials.sessionToken;
  const sha = (text: string) => createHash("sha256").update(text).digest("hex");
  const hmac = (key: string | Buffer, text: string) => createHmac("sha256", key).update(text).digest();
  const names = Object.keys(headers).sort();
  // Each part of the path is encoded once more than in the URL.
  const escaped = (c: string) => "%" + c.charCodeAt(0).toString(16).toUpperCase();
  const encoded = (part: string) => encodeURIComponent(part).replace(/[!'()*]/g, escaped);
  const path = url.pathname.split("/").map(encoded).join("/");
  const lines = names.map((name) => `${name}:${headers[name]}\n`).join("");
  const canonical = ["POST", path, "", lines, names.join(";"), sha(body)].join("\n");
  const scope = `${date.slice(0, 8)}/${region}/execute-api/aws4_request`;
  const key = scope.split("/").reduce<string | Buffer>(hmac, `AWS4${credentials.secretAccessKey}`);
  const signature = hmac(key, ["AWS4-HMAC-SHA256", date, scope, sha(canonical)].join("\n")).toString("hex");
  const { host, ...sent } = headers;
  const credential = `AWS4-HMAC-SHA256 Credential=${credentials.accessKeyId}/${scope}`;
  sent.authorization = `${credential}, SignedHeaders=${names.join(";")}, Signature=${signature}`;
  return sent;
}

const backoff = (attempt: number) => Math.min(60_000, 1000 * 2 ** Math.min(attempt, 6)) * (0.5 + Math.random() / 2);
const fromEnvironment = (): Credentials => ({
  accessKeyId: process.env.AWS_ACCESS_KEY_ID ?? "", secretAccessKey: process.env.AWS_SECRET_ACCESS_KEY ?? "",
  sessionToken: process.env.AWS_SESSION_TOKEN,
});
// The time counts from the request, so a clock that differs from Mitt's does no harm. The default is the shortest.
const endOfLease = (answer: Fields, sent: number) => sent + (answer.lease_ms ?? 30_000);

class Api {
  settings: Settings;
  constructor(settings: Settings) {
    this.settings = settings;
  }

  /** Repeats a request that gets no answer, until this time. Each one can be repeated. */
  async post(op: string, fields: Fields, until = Infinity): Promise<Fields> {
    const { api, queue, credentials } = this.settings;
    const url = new URL(`${api.replace(/\/+$/, "")}/work/${queue}/${op}`);
    const inHost = /\.execute-api\.([^.]+)/.exec(url.host)?.[1];
    const region = this.settings.region ?? inHost ?? process.env.AWS_REGION;
    if (!region) throw new Error("no Region: pass region, or set AWS_REGION");
    const body = JSON.stringify(fields);
    for (let attempt = 0; ; attempt++) {
      let why: unknown;
      try {
        const keys = await (credentials ?? fromEnvironment)();
        const headers = signed(url, body, region, keys);
        const answer = await fetch(url, { method: "POST", body, headers, signal: AbortSignal.timeout(30_000) });
        if (answer.ok) return (await answer.json()) as Fields;
        why = answer.status;
        if (answer.status < 500 && answer.status !== 429) {
          const said = (await answer.json().catch(() => ({}))) as Fields;
          throw new Refused(answer.status, said.error ?? "", said.message ?? "");
        }
      } catch (error) {
        if (error instanceof Refused) throw error;
        why = error;
      }
      const pause = backoff(attempt);
      if (Date.now() + pause > until) throw new Refused(409, "no_answer", `no answer to ${op} within the lease: ${why}`);
      console.warn(`no answer to ${op}: ${why}; repeating it in ${Math.round(pause)} ms`);
      await sleep(pause);
    }
  }
}

/** An event. `fields` are those of the protocol. */
export class Event {
  fields: Fields;
  until: number;
  closed = new AbortController();
  api: Api;
  constructor(api: Api, fields: Fields, sent: number) {
    this.api = api;
    this.fields = fields;
    this.until = endOfLease(fields, sent);
  }
  get id(): string { return this.fields.id; }
  get type(): string { return this.fields.type ?? ""; }
  get thread(): string { return this.fields.thread; }
  get runId(): string { return this.fields.run_id; }
  get trace(): string { return this.fields.trace; }
  content(): Buffer {
    const { body, body_base64 } = this.fields;
    return body_base64 === undefined ? Buffer.from(body) : Buffer.from(body_base64, "base64");
  }
  json(): any { return JSON.parse(this.content().toString()); }

  post(op: string, fields: Fields): Promise<Fields> {
    return this.api.post(op, { lease: this.fields.lease, ...fields }, this.until);
  }

  async extend() {
    const sent = Date.now();
    this.until = endOfLease(await this.post("extend", { lease_s: this.api.settings.leaseSeconds }), sent);
  }

  async renew() {
    try {
      while (true) {
        await sleep(Math.max(1000, (this.until - Date.now()) / 3), undefined, { signal: this.closed.signal, ref: false });
        await this.extend();
      }
    } catch (error) {
      if (!this.closed.signal.aborted) console.warn(`the lease of ${this.id} is not extended any more: ${error}`);
    }
  }

  /** The plan of an effect that a person approved. Do exactly that, and pass it as `plan`. */
  approved(name: string): Plan | undefined { return this.fields.effects?.[name]?.plan; }

  /** Declares an effect, makes the call if Mitt allows it, and records the result. */
  async effect(name: string, options: EffectOptions, call: (call: Call) => Promise<Result>): Promise<void> {
    const begun = await this.begin(name, options);
    if (!begun.go) return;
    const timeout = begun.until - Date.now() - MARGIN;
    const end = ({ result, note = "" }: Result) => this.post("end", { effect: name, result, note: note.slice(0, 120) });
    if (timeout < 1000) throw new Ended("retry", "the lease is too short for the call");
    let result: Result;
    try {
      result = await call({ key: begun.key, traceparent: this.trace, timeout });
    } catch (error) {
      await end(unknown());
      throw error;
    }
    await end(result);
    if (result.result === "not") throw new Ended("retry", `effect ${name} did not happen`);
    if (result.result === "refused") throw new Ended("permanent", `effect ${name} was refused`);
    if (result.result === "unknown") throw new Ended("retry", `effect ${name} may have happened`);
  }

  async begin(name: string, options: EffectOptions, asked?: "did_not"): Promise<Fields> {
    if (this.until - Date.now() < 2 * MARGIN) await this.extend();
    const sent = Date.now();
    const answer = await this.post("begin", { effect: name, keys: options.keys, plan: options.plan, asked });
    if (answer.held) throw new Held(name, answer.expires);
    if (answer.denied) throw new Ended("permanent", `rule ${answer.rule} denies effect ${name}: ${answer.note}`);
    if (answer.refused) throw new Ended("permanent", answer.note || `effect ${name} is refused`);
    if (!answer.in_doubt) return { ...answer, until: endOfLease(answer, sent) };
    if (!options.search) throw new Ended("unknown", `effect ${name} may have happened`);
    // Until then, a call of the earlier attempt can arrive, so an earlier search proves nothing.
    const left = Date.parse(answer.ask_from) - Date.now();
    if (asked || left > 0) throw new Ended("retry", `effect ${name} may still happen`, Math.max(1, left / 1000 + 1));
    const found = await options.search(answer.key);
    if (found === undefined) return this.begin(name, options, "did_not");
    await this.post("end", { effect: name, result: "done", note: found.slice(0, 120) });
    return { go: false };
  }
}

export class Worker {
  api: Api;
  handlers: [RegExp, Handler][] = [];
  stopped = new AbortController();
  constructor(settings: Settings) {
    this.api = new Api(settings);
  }

  /** `types` is a type of events, or a pattern such as "invoice.*". */
  on(types: string, handler: Handler) {
    const pattern = types.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*");
    this.handlers.push([new RegExp(`^${pattern}$`, "s"), handler]);
  }

  stop() { this.stopped.abort(); }

  async run({ concurrency = 1 } = {}): Promise<void> {
    const running = new Set<Promise<void>>();
    while (!this.stopped.signal.aborted) {
      if (running.size >= concurrency) {
        await Promise.race(running);
        continue;
      }
      const { name, leaseSeconds } = this.api.settings;
      const sent = Date.now();
      const ask = { worker: name, max: Math.min(concurrency - running.size, 10), lease_s: leaseSeconds };
      const answer = await this.api.post("next", ask);
      for (const fields of answer.events) {
        const work: Promise<void> = this.work(new Event(this.api, fields, sent)).finally(() => running.delete(work));
        running.add(work);
      }
      if (answer.events.length > 0) continue;
      const pause = (answer.retry_after_ms ?? 5000) * (0.8 + Math.random() * 0.4);
      await sleep(pause, undefined, { signal: this.stopped.signal }).catch(() => {});
    }
    await Promise.all(running);
  }

  async work(event: Event): Promise<void> {
    void event.renew();
    try {
      const end = await this.handle(event);
      event.closed.abort();
      await event.post("finish", end);
    } catch (error) {
      console.warn(`event ${event.id} is not settled: ${error}`);
    } finally {
      event.closed.abort();
    }
  }

  async handle(event: Event): Promise<Fields> {
    try {
      const found = this.handlers.find(([types]) => types.test(event.type));
      if (!found) throw new Ended("permanent", `no handler for the type ${event.type}`);
      await found[1](event);
      return { outcome: "done" };
    } catch (error) {
      if (error instanceof Refused && error.status === 409) throw error;
      if (error instanceof Ended) {
        const after_s = error.after === undefined ? undefined : Math.max(0, Math.round(error.after));
        return { outcome: error.outcome, error: error.message.slice(0, 500), after_s };
      }
      console.error(`event ${event.id} failed:`, error);
      // The text of another error can contain a part of the body.
      return { outcome: "retry", error: error instanceof Refused ? error.message : (error as Error)?.name ?? "error" };
    }
  }
}
