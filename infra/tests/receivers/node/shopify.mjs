// https://github.com/Shopify/shopify-app-js/blob/main/packages/apps/shopify-api/docs/reference/webhooks/validate.md
import "@shopify/shopify-api/adapters/node";
import express from "express";
import { shopifyApi } from "@shopify/shopify-api";

const shopify = shopifyApi({
  apiKey: "key",
  apiSecretKey: process.env.SECRET,
  apiVersion: "2026-07",
  hostName: "app.example.com",
  isEmbeddedApp: true,
  logger: { log: () => {} },
});
const app = express();

app.post("/webhook", express.text({ type: "*/*" }), async (req, res) => {
  const { valid, topic, domain } = await shopify.webhooks.validate({
    rawBody: req.body,
    rawRequest: req,
    rawResponse: res,
  });
  if (!valid) {
    return res.status(400).send();
  }
  console.log(`Received webhook for ${topic} of ${domain}`);
  res.status(200).send();
});

const server = app.listen(process.env.PORT, () => console.log("port", server.address().port));
