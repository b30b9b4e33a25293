// Signs and verifies webhooks with the providers' own SDKs.
//
// Each input line is a request {sdk, do, secret, url, headers, body}. For `sign`, the output line is
// the request with its signature; for `verify`, it is {valid}. An SDK that only verifies has no
// `sign`.

import { createInterface } from "node:readline";

import adyen from "@adyen/api-library";
import { validateSignature as lineVerify } from "@line/bot-sdk";
import Mux from "@mux/mux-node";
import { sign as githubSign, verify as githubVerify } from "@octokit/webhooks-methods";
import "@shopify/shopify-api/adapters/node";
import { shopifyApi } from "@shopify/shopify-api";
import { createSHA256HMAC } from "@shopify/shopify-api/runtime";
import Finch from "@tryfinch/finch-api";
import { WorkOS } from "@workos-inc/node";
import { verifyKey } from "discord-interactions";
import DodoPayments from "dodopayments";
import hubspot from "@hubspot/api-client";
import Lithic from "lithic";
import ModernTreasury from "modern-treasury";
import OpenAI from "openai";
import Orb from "orb-billing";
import Razorpay from "razorpay";
import { WebhooksHelper } from "square";
import { Webhook as StandardWebhook } from "standardwebhooks";
import Stripe from "stripe";
import { Webhook as SvixWebhook } from "svix";
import nacl from "tweetnacl";
import twilio from "twilio";

const stripe = new Stripe("sk_test_of_nobody");
const hmacs = new adyen.hmacValidator();
const shopify = (secret) =>
  shopifyApi({
    apiKey: "of-nobody",
    apiSecretKey: secret,
    apiVersion: "2026-07",
    hostName: "in.example.test",
    isEmbeddedApp: true,
    logger: { log: () => {} },
  });

const workos = new WorkOS("sk_of_nobody");
const modernTreasury = new ModernTreasury({ apiKey: "of-nobody", organizationID: "of-nobody" });
const dodo = new DodoPayments({ bearerToken: "of-nobody" });

const seconds = () => Math.floor(Date.now() / 1000).toString();
const form = (body) => Object.fromEntries(new URLSearchParams(body));
const holds = async (check) => {
  try {
    await check();
    return true;
  } catch {
    return false;
  }
};

/** Standard Webhooks with one prefix of the header names. */
const standard = (Webhook, prefix) => ({
  sign: ({ secret, headers, body }) => {
    const [id, at] = [headers[`${prefix}-id`], new Date()];
    return {
      headers: {
        [`${prefix}-timestamp`]: Math.floor(at.getTime() / 1000).toString(),
        [`${prefix}-signature`]: new Webhook(secret).sign(id, at, body),
      },
    };
  },
  verify: ({ secret, headers, body }) => holds(() => new Webhook(secret).verify(body, headers)),
});

/** An SDK whose client has `webhooks.verifySignature`. It cannot sign. */
const generated = (client) => ({
  verify: ({ secret, headers, body }) =>
    holds(() => client.webhooks.verifySignature(body, headers, secret)),
});

const adyenItem = (body) => JSON.parse(body).notificationItems[0].NotificationRequestItem;

const sdks = {
  stripe: {
    sign: ({ secret, body }) => ({
      headers: {
        "stripe-signature": stripe.webhooks.generateTestHeaderString({ payload: body, secret }),
      },
    }),
    verify: ({ secret, headers, body }) =>
      holds(() => stripe.webhooks.constructEvent(body, headers["stripe-signature"], secret)),
  },
  github: {
    sign: async ({ secret, body }) => ({
      headers: { "x-hub-signature-256": await githubSign(secret, body) },
    }),
    verify: ({ secret, headers, body }) =>
      githubVerify(secret, body, headers["x-hub-signature-256"]),
  },
  standardwebhooks: standard(StandardWebhook, "webhook"),
  svix: standard(SvixWebhook, "svix"),
  twilio: {
    sign: ({ secret, url, body }) => ({
      headers: {
        "x-twilio-signature": twilio.getExpectedTwilioSignature(secret, url, form(body)),
      },
    }),
    verify: ({ secret, url, headers, body }) =>
      twilio.validateRequest(secret, headers["x-twilio-signature"], url, form(body)),
  },
  "twilio-json": {
    sign: ({ secret, url, body }) => {
      const signed = `${url}?bodySHA256=${twilio.getExpectedBodyHash(body)}`;
      const signature = twilio.getExpectedTwilioSignature(secret, signed, {});
      return { url: signed, headers: { "x-twilio-signature": signature } };
    },
    verify: ({ secret, url, headers, body }) =>
      twilio.validateRequestWithBody(secret, headers["x-twilio-signature"], url, body),
  },
  shopify: {
    sign: async ({ secret, body }) => ({
      headers: { "x-shopify-hmac-sha256": await createSHA256HMAC(secret, body) },
    }),
    verify: async ({ secret, headers, body }) => {
      const rawRequest = { method: "POST", url: "/", headers };
      const answer = await shopify(secret).webhooks.validate({ rawBody: body, rawRequest });
      return answer.valid;
    },
  },
  adyen: {
    sign: ({ secret, body }) => {
      const signed = JSON.parse(body);
      const item = signed.notificationItems[0].NotificationRequestItem;
      item.additionalData = { hmacSignature: hmacs.calculateHmac(item, secret) };
      return { headers: {}, body: JSON.stringify(signed) };
    },
    verify: ({ secret, body }) => hmacs.validateHMAC(adyenItem(body), secret),
  },
  hubspot: {
    sign: ({ secret, url, body }) => {
      const timestamp = Date.now();
      const options = { clientSecret: secret, url, requestBody: body, timestamp };
      return {
        headers: {
          "x-hubspot-request-timestamp": timestamp.toString(),
          "x-hubspot-signature-v3": hubspot.Signature.getSignature("POST", "v3", options),
        },
      };
    },
    verify: ({ secret, url, headers, body }) =>
      hubspot.Signature.isValid({
        signatureVersion: "v3",
        signature: headers["x-hubspot-signature-v3"],
        timestamp: Number(headers["x-hubspot-request-timestamp"]),
        clientSecret: secret,
        url,
        requestBody: body,
      }),
  },
  square: {
    verify: ({ secret, url, headers, body }) =>
      WebhooksHelper.verifySignature({
        requestBody: body,
        signatureHeader: headers["x-square-hmacsha256-signature"],
        signatureKey: secret,
        notificationUrl: url,
      }),
  },
  finch: generated(new Finch({ accessToken: "of-nobody" })),
  lithic: generated(new Lithic({ apiKey: "of-nobody" })),
  mux: generated(new Mux({ tokenId: "of-nobody", tokenSecret: "of-nobody" })),
  openai: generated(new OpenAI({ apiKey: "of-nobody" })),
  orb: generated(new Orb({ apiKey: "of-nobody" })),
  "dodo-payments": {
    verify: ({ secret, headers, body }) =>
      holds(() => dodo.webhooks.unwrap(body, { headers, key: secret })),
  },
  line: {
    verify: ({ secret, headers, body }) => lineVerify(body, secret, headers["x-line-signature"]),
  },
  "modern-treasury": {
    verify: ({ secret, headers, body }) =>
      modernTreasury.webhooks.validateSignature(body, headers, { key: secret }),
  },
  razorpay: {
    verify: ({ secret, headers, body }) =>
      Razorpay.validateWebhookSignature(body, headers["x-razorpay-signature"], secret),
  },
  workos: {
    verify: ({ secret, headers, body }) => {
      const signed = { payload: JSON.parse(body), sigHeader: headers["workos-signature"], secret };
      return holds(() => workos.webhooks.verifyHeader(signed));
    },
  },
  // The SDK only verifies, so tweetnacl signs. The secret is the seed of the key pair.
  discord: {
    sign: ({ secret, body }) => {
      const pair = nacl.sign.keyPair.fromSeed(Buffer.from(secret, "hex"));
      const timestamp = seconds();
      const signature = nacl.sign.detached(Buffer.from(timestamp + body), pair.secretKey);
      return {
        headers: {
          "x-signature-ed25519": Buffer.from(signature).toString("hex"),
          "x-signature-timestamp": timestamp,
        },
      };
    },
    verify: ({ secret, headers, body }) => {
      const pair = nacl.sign.keyPair.fromSeed(Buffer.from(secret, "hex"));
      const [signature, at] = [headers["x-signature-ed25519"], headers["x-signature-timestamp"]];
      return verifyKey(body, signature, at, Buffer.from(pair.publicKey).toString("hex"));
    },
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const sdk = sdks[request.sdk];
  let answer;
  if (request.do === "verify") {
    answer = { valid: await sdk.verify(request) };
  } else {
    const proof = await sdk.sign(request);
    answer = { ...request, ...proof, headers: { ...request.headers, ...proof.headers } };
  }
  console.log(JSON.stringify(answer));
}
