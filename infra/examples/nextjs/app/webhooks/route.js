// Receives the events of the source stripe-main. Mitt signs each request as Standard Webhooks (sign = "standard"), with
// the secret stripe-main.
import Database from "libsql";
import { Webhook } from "standardwebhooks";

const answer = (status, headers) => new Response(null, { status, headers });

// Use the database of your service instead: the keys must be in the database that the work changes. It opens at the
// first request, because `next build` also loads this file.
let handle;
function open() {
  const db = new Database(process.env.DATABASE ?? "receiver.db", { timeout: 2000 });
  db.exec(`CREATE TABLE IF NOT EXISTS handled (key TEXT PRIMARY KEY);
           CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, body TEXT NOT NULL);`);
  const storeKey = db.prepare("INSERT INTO handled (key) VALUES (?) ON CONFLICT DO NOTHING");
  const addJob = db.prepare("INSERT INTO jobs (body) VALUES (?)");
  // One transaction stores the key and does the work. If the key is stored already, the work is done.
  return db.transaction((key, event) => {
    if (storeKey.run(key).changes === 0) return;
    addJob.run(JSON.stringify(event)); // your work
  });
}

export async function POST(request) {
  const body = await request.text(); // the signature covers the exact text
  let event;
  try {
    event = new Webhook(process.env.WEBHOOK_SECRET).verify(body, Object.fromEntries(request.headers));
  } catch (error) {
    // A signed body that is not JSON will never be JSON: 422 ends the event. 401 refuses any other request.
    return answer(error instanceof SyntaxError ? 422 : 401);
  }
  if (event === null || typeof event !== "object" || Array.isArray(event)) return answer(422);
  try {
    // webhook-id is the idempotency key, and the signature covers it.
    handle ??= open();
    handle(request.headers.get("webhook-id"), event);
  } catch (error) {
    if (error.code !== "SQLITE_BUSY") throw error; // Next.js responds with 500, and Mitt repeats the request.
    return answer(429, { "retry-after": "10" });
  }
  return answer(200);
}
