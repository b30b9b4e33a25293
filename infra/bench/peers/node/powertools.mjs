// The same job with Powertools for AWS Lambda: its idempotency utility writes the row of the event.
// https://docs.aws.amazon.com/powertools/typescript/latest/features/idempotency/
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';
import { SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';

import { isVerified } from './signature.mjs';

const sqs = new SQSClient({});
const { MITT_QUEUE_URL, MITT_TABLE } = process.env;

const persistenceStore = new DynamoDBPersistenceLayer({ tableName: MITT_TABLE, keyAttr: 'pk', sortKeyAttr: 'sk' });
const config = new IdempotencyConfig({ eventKeyJmesPath: 'powertools_json(body).id' });

// The row of the utility does not contain the webhook, so the message does.
const sendOnce = makeIdempotent(async ({ body }) => {
  await sqs.send(new SendMessageCommand({ QueueUrl: MITT_QUEUE_URL, MessageBody: body }));
  return { statusCode: 200, body: '' };
}, { persistenceStore, config });

// The utility stores the first answer for an event id, so a webhook with a wrong signature must not reach it.
export async function handler(event, context) {
  if (!isVerified(event)) {
    return { statusCode: 401, body: '' };
  }
  return sendOnce(event, context);
}
