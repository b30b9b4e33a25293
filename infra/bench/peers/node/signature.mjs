// Verifies the signature of Stripe: https://docs.stripe.com/webhooks#verify-manually
import { createHmac, timingSafeEqual } from 'node:crypto';

const { SIGNING_SECRET } = process.env;

export function isVerified({ headers, body }) {
  const signature = headers['stripe-signature'] ?? '';
  const parts = Object.fromEntries(signature.split(',').map((part) => part.split('=', 2)));
  const wanted = createHmac('sha256', SIGNING_SECRET).update(`${parts.t}.${body}`).digest();
  const given = Buffer.from(parts.v1 ?? '', 'hex');
  const isRecent = Math.abs(Date.now() / 1000 - Number(parts.t)) < 300;
  return isRecent && given.length === wanted.length && timingSafeEqual(given, wanted);
}
