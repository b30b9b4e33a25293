// The handlers of the tests, with the TypeScript client: `worker.mjs CLIENT URL QUEUE`. worker.py is the same program in
// Python. CLIENT is mitt-worker.ts without its types.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

const [client, api, queue] = process.argv.slice(2);
const { Ended, Held, Worker, done, not, refused } = await import(client);
const worker = new Worker({ api, queue, name: "test-1" });

worker.on("plain.ok", (event) => assert.deepEqual(event.json(), { text: "café" }));
worker.on("plain.retry", () => { throw new Ended("retry", "try later", 90); });
worker.on("plain.permanent", () => { throw new Ended("permanent", "not for us"); });
worker.on("plain.unknown", () => { throw new Ended("unknown", "who knows"); });
worker.on("plain.crash", () => { throw new TypeError("a part of the body"); });
worker.on("plain.slow", () => sleep(3500));
worker.on("effect.done", (event) => event.effect("ticket", { keys: "honoured", plan: { summary: "one" } }, async (call) => {
  assert.equal(call.key, "wh_1");
  assert.ok(call.timeout > 0 && call.timeout <= 50_000);
  return done("T-1");
}));
worker.on("effect.planned", async (event) => {
  const plan = event.approved("ticket") ?? { summary: "own" };
  try {
    await event.effect("ticket", { keys: "honoured", plan }, async () => done(plan.summary));
  } catch (error) {
    assert.ok(error instanceof Held && error.message.includes("2026-11-29"), error);
    throw error;
  }
});
worker.on("effect.crash", (event) => event.effect("ticket", { keys: "honoured" }, async () => {
  throw new RangeError("no answer");
}));
worker.on("effect.refused", (event) => event.effect("ticket", { keys: "honoured" }, async () => refused("no such project")));
worker.on("effect.not", (event) => event.effect("ticket", { keys: "honoured" }, async () => not()));
worker.on("effect.ask.*", (event) => {
  const search = async () => event.type.endsWith("found") ? "T-0" : undefined;
  return event.effect("ticket", { keys: "ask", search }, async () => done("T-1"));
});
worker.on("effect.ignored", (event) => event.effect("ticket", { keys: "ignored" }, async () => done("T-1")));

await worker.run({ concurrency: 2 });
