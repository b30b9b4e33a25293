// Handles the events of the source stripe-main, which Mitt sends to a queue. IAM protects the queue, so the messages
// have no signature.
import { DynamoDBClient, TransactWriteItemsCommand } from "@aws-sdk/client-dynamodb";

const db = new DynamoDBClient();
const TableName = process.env.TABLE;

// The event source mapping needs ReportBatchItemFailures. Lambda then deletes only the messages that are not in the
// answer.
export async function handler({ Records }) {
  const batchItemFailures = [];
  for (const record of Records) {
    const isFifo = record.eventSourceARN.endsWith(".fifo");
    // In a FIFO queue, the messages after a failed message wait for it.
    if (!isFifo || batchItemFailures.length === 0) {
      try {
        await handle(record.messageAttributes["Idempotency-Key"].stringValue, parsed(record));
        continue;
      } catch (error) {
        console.error(record.messageId, error.name); // the text of an error can contain a part of the body
      }
    }
    // SQS delivers the message again, and moves it to the dead-letter queue after maxReceiveCount deliveries.
    batchItemFailures.push({ itemIdentifier: record.messageId });
  }
  return { batchItemFailures };
}

function parsed({ body, messageAttributes }) {
  const isBase64 = messageAttributes["Content-Encoding"]?.stringValue === "base64";
  const event = JSON.parse(isBase64 ? Buffer.from(body, "base64").toString() : body);
  const isObject = event !== null && typeof event === "object" && !Array.isArray(event);
  if (!isObject) throw new TypeError("the body is not an object");
  return event;
}

// One transaction stores the key and does the work. If the key is stored already, the work is done.
async function handle(key, event) {
  const storeKey = {
    Put: { TableName, Item: { pk: { S: `handled#${key}` } }, ConditionExpression: "attribute_not_exists(pk)" },
  };
  // Your work: here, a count of the events of each type.
  const addJob = {
    Update: {
      TableName,
      Key: { pk: { S: `jobs#${event.type}` } },
      UpdateExpression: "ADD jobs :one",
      ExpressionAttributeValues: { ":one": { N: "1" } },
    },
  };
  try {
    await db.send(new TransactWriteItemsCommand({ TransactItems: [storeKey, addJob] }));
  } catch (error) {
    if (error.CancellationReasons?.[0].Code !== "ConditionalCheckFailed") throw error;
  }
}
