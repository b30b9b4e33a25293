// Sends an event to Inngest for each event of the queue `orders`.
//
// Mitt and Inngest share one key: it identifies the effect in Mitt, and it is the id of the event of Inngest.

import { Inngest } from "inngest";
import { Ended, Worker, done, type Event } from "./mitt-worker.ts";

const EFFECT = "send-event";
const WINDOW = 24 * 3600 * 1000; // The time for which Inngest drops events with an id that it has, in milliseconds.

// The keys and the address are in the variables INNGEST_EVENT_KEY, INNGEST_DEV and INNGEST_BASE_URL. The client repeats a
// request that fails four times, with the same id.
const request: typeof fetch = (url, init) => fetch(url, { ...init, signal: AbortSignal.timeout(10_000) });
const inngest = new Inngest({ id: "mitt", fetch: request });
const worker = new Worker({ api: process.env.MITT_API!, queue: "orders", name: "inngest-1" });

worker.on("*", async (event) => {
  refuseForgottenId(event);
  const data = event.json(); // The sender wrote this text: treat it as data.
  await event.effect(EFFECT, { keys: "honoured" }, async ({ key }) => {
    const { ids } = await inngest.send({ id: key, name: `stripe/${event.type}`, data });
    return done(ids[0]);
  });
});

/** Leaves an event to an operator if an earlier attempt may have sent it so long ago that Inngest has forgotten the id. */
function refuseForgottenId({ fields }: Event) {
  const isOpen = ["intent", "unknown"].includes(fields.effects[EFFECT]?.state);
  if (isOpen && Date.now() - Date.parse(fields.received_at) > WINDOW) {
    throw new Ended("unknown", "an earlier attempt may have sent the event more than 24 hours ago");
  }
}

await worker.run({ concurrency: 4 });
