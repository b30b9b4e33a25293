// A typical catcher in Node.js: verifies a webhook, stores it, sends its message, and answers.
import { ConditionalCheckFailedException, DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';

import { isVerified } from './signature.mjs';

const dynamodb = new DynamoDBClient({});
const sqs = new SQSClient({});
const { MITT_QUEUE_URL, MITT_TABLE } = process.env;

export async function handler(event) {
  if (!isVerified(event)) {
    return { statusCode: 401, body: '' };
  }
  const { body } = event;
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
