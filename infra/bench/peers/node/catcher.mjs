// A typical catcher in Node.js: verifies a webhook, stores it, sends its message, and answers.
import { createHmac, timingSafeEqual } from 'node:crypto';

import { ConditionalCheckFailedException, DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';

const dynamodb = new DynamoDBClient({});
const sqs = new SQSClient({});
const { MITT_QUEUE_URL, MITT_TABLE, SIGNING_SECRET } = process.env;

// https://docs.stripe.com/webhooks#verify-manually
function isVerified(signature, body) {
  const parts = Object.fromEntries(signature.split(',').map((part) => part.split('=', 2)));
  const wanted = createHmac('sha256', SIGNING_SECRET).update(`${parts.t}.${body}`).digest();
  const given = Buffer.from(parts.v1 ?? '', 'hex');
  const isRecent = Math.abs(Date.now() / 1000 - Number(parts.t)) < 300;
  return isRecent && given.length === wanted.length && timingSafeEqual(given, wanted);
}

export async function handler(event) {
  const { body, headers } = event;
  if (!isVerified(headers['stripe-signature'] ?? '', body)) {
    return { statusCode: 401, body: '' };
  }
  const key = `E#stripe-main#${JSON.parse(body).id}`;
  try {
    await dynamodb.send(new PutItemCommand({
      TableName: MITT_TABLE,
      Item: { pk: { S: key }, sk: { S: 'M' }, b: { S: body }, st: { S: 'new' } },
      ConditionExpression: 'attribute_not_exists(pk)',
    }));
  } catch (error) {
    if (!(error instanceof ConditionalCheckFailedException)) throw error;
  }
  await sqs.send(new SendMessageCommand({ QueueUrl: MITT_QUEUE_URL, MessageBody: JSON.stringify({ key }) }));
  return { statusCode: 200, body: '' };
}
