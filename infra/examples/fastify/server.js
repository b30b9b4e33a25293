// Receives the events of the source stripe-main. Mitt signs each request as Standard Webhooks (sign = "standard"), with
// the secret stripe-main.
import Database from "libsql";
import Fastify from "fastify";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.WEBHOOK_SECRET);

// Use the database of your service instead: the keys must be in the database that the work changes.
const db = new Database(process.env.DATABASE ?? "receiver.db", { timeout: 2000 });
db.exec(`CREATE TABLE IF NOT EXISTS handled (key TEXT PRIMARY KEY);
         CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, body TEXT NOT NULL);`);
const storeKey = db.prepare("INSERT INTO handled (key) VALUES (?) ON CONFLICT DO NOTHING");
const addJob = db.prepare("INSERT INTO jobs (body) VALUES (?)");

// One transaction stores the key and does the work. If the key is stored already, the work is done.
const handle = db.transaction((key, event) => {
  if (storeKey.run(key).changes === 0) return;
  addJob.run(JSON.stringify(event)); // your work
});

const app = Fastify({ bodyLimit: 4 * 1024 * 1024 });

app.register(async (scope) => {
  // The signature covers the exact bytes, so the routes of this scope get the raw body.
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser("*", { parseAs: "buffer" }, (request, body, done) => done(null, body));

  scope.post("/webhooks", async (request, reply) => {
    let event;
    try {
      event = webhook.verify(request.body ?? "", request.headers);
    } catch (error) {
      // A signed body that is not JSON will never be JSON: 422 ends the event. 401 refuses any other request.
      return reply.code(error instanceof SyntaxError ? 422 : 401).send();
    }
    if (event === null || typeof event !== "object" || Array.isArray(event)) return reply.code(422).send();
    try {
      // webhook-id is the idempotency key, and the signature covers it.
      handle(request.headers["webhook-id"], event);
    } catch (error) {
      if (error.code !== "SQLITE_BUSY") throw error; // Fastify responds with 500, and Mitt repeats the request.
      return reply.code(429).header("retry-after", "10").send();
    }
    return reply.code(200).send();
  });
});

await app.listen({ port: Number(process.env.PORT ?? 3000) });
