// Opens a ticket for each event, with the TypeScript client: `tickets.js API TRACKER`. tickets.py is the same program in
// Python, and explains it.

import { setTimeout as sleep } from "node:timers/promises";
import { Worker, done, not } from "./mitt-worker.ts";
import type { Result } from "./mitt-worker.ts";

const PATIENCE = 60_000;
const [api = "", tracker = ""] = process.argv.slice(2);
const worker = new Worker({ api, queue: "tickets", name: "typescript", region: "us-east-1" });

async function search(key: string): Promise<string | undefined> {
  const answer = await fetch(`${tracker}/tickets?reference=${key}`, { signal: AbortSignal.timeout(10_000) });
  const { number } = (await answer.json()) as { number: number | null };
  return number === null ? undefined : String(number);
}

async function create(ticket: object, key: string, timeout: number): Promise<Result> {
  const body = JSON.stringify({ ...ticket, reference: key });
  try {
    const answer = await fetch(`${tracker}/tickets`, { method: "POST", body, signal: AbortSignal.timeout(timeout) });
    if (!answer.ok) return not();
    return done(String(((await answer.json()) as { number: number }).number));
  } catch (error) {
    // The answer was lost. A ticket that is found was opened; a ticket that is not found can still be opened.
    for (const end = Date.now() + PATIENCE; Date.now() < end; await sleep(2000)) {
      const found = await search(key);
      if (found !== undefined) return done(found);
    }
    throw error;
  }
}

worker.on("*", (event) => {
  const ticket = { source: event.fields.source, event: event.json().id, run: event.fields.run };
  return event.effect("open-ticket", { keys: "ask", search }, ({ key, timeout }) => create(ticket, key, timeout));
});

await worker.run({ concurrency: 8 });
