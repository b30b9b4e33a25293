// Handles the events of the source stripe-main. Mitt invokes this function once for each event. IAM protects the
// function, so the document has no signature.
import { DynamoDBClient, TransactWriteItemsCommand } from "@aws-sdk/client-dynamodb";

const db = new DynamoDBClient();
const TableName = process.env.TABLE;

// With permanent_errors = ["PermanentError"] in the action, this error ends the event. Mitt repeats the invocation
// after any other error.
class PermanentError extends Error {
  name = "PermanentError";
}

export async function handler(document) {
  await handle(document.event.idempotencyKey, parsed(document));
}

function parsed({ body, isBase64 }) {
  let event;
  try {
    event = JSON.parse(isBase64 ? Buffer.from(body, "base64").toString() : body);
  } catch {
    throw new PermanentError("the body is not JSON");
  }
  const isObject = event !== null && typeof event === "object" && !Array.isArray(event);
  if (!isObject) throw new PermanentError("the body is not an object");
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
