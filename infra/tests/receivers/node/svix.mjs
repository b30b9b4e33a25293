// https://docs.svix.com/receiving/verifying-payloads/how
import express from "express";
import { Webhook } from "svix";

const secret = process.env.SECRET;
const app = express();

app.post("/webhook", express.raw({ type: "application/json" }), (req, res) => {
  const payload = req.body;
  const headers = req.headers;
  const wh = new Webhook(secret);
  let msg;
  try {
    msg = wh.verify(payload, headers);
  } catch (err) {
    return res.status(400).json({ error: err.message });
  }
  console.log(msg.type);
  res.json({});
});

const server = app.listen(process.env.PORT, () => console.log("port", server.address().port));
