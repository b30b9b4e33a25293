// Receives the events of the source stripe-main. Mitt signs each request as Standard Webhooks (sign = "standard"), with
// the secret stripe-main.
import Database from "libsql";
import express from "express";
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

const app = express();

// The signature covers the exact bytes. If the app also uses express.json(), put it below this route.
app.post("/webhooks", express.raw({ type: () => true, limit: "4mb" }), (request, response) => {
  let event;
  try {
    event = webhook.verify(request.body ?? "", request.headers);
  } catch (error) {
    // A signed body that is not JSON will never be JSON: 422 ends the event. 401 refuses any other request.
    return response.sendStatus(error instanceof SyntaxError ? 422 : 401);
  }
  if (event === null || typeof event !== "object" || Array.isArray(event)) return response.sendStatus(422);
  try {
    // webhook-id is the idempotency key, and the signature covers it.
    handle(request.get("webhook-id"), event);
  } catch (error) {
    if (error.code !== "SQLITE_BUSY") throw error; // Express responds with 500, and Mitt repeats the request.
    return response.set("retry-after", "10").sendStatus(429);
  }
  response.sendStatus(200);
});

app.listen(process.env.PORT ?? 3000);
