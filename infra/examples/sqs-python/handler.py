"""Handles the events of the source stripe-main, which Mitt sends to a queue.

IAM protects the queue, so the messages have no signature.
"""

import base64
import json
import logging
import os

import boto3

db = boto3.client("dynamodb")
TABLE = os.environ["TABLE"]


def handler(batch, context):
    """Handles the messages of a batch.

    The event source mapping needs ReportBatchItemFailures. Lambda then deletes only the messages that are not in the
    answer.
    """
    failures = []
    for record in batch["Records"]:
        is_fifo = record["eventSourceARN"].endswith(".fifo")
        # In a FIFO queue, the messages after a failed message wait for it.
        if not is_fifo or not failures:
            try:
                handle(record["messageAttributes"]["Idempotency-Key"]["stringValue"], parsed(record))
                continue
            except Exception as error:
                # The text of an error can contain a part of the body.
                logging.error("%s %s", record["messageId"], type(error).__name__)
        # SQS delivers the message again, and moves it to the dead-letter queue after maxReceiveCount deliveries.
        failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def parsed(record):
    encoding = record["messageAttributes"].get("Content-Encoding", {}).get("stringValue")
    event = json.loads(base64.b64decode(record["body"]) if encoding == "base64" else record["body"])
    if not isinstance(event, dict):
        raise TypeError("the body is not an object")
    return event


def handle(key, event):
    """Stores the key and does the work in one transaction. If the key is stored already, the work is done."""
    store_key = {
        "TableName": TABLE,
        "Item": {"pk": {"S": f"handled#{key}"}},
        "ConditionExpression": "attribute_not_exists(pk)",
    }
    # Your work: here, a count of the events of each type.
    add_job = {
        "TableName": TABLE,
        "Key": {"pk": {"S": f"jobs#{event.get('type')}"}},
        "UpdateExpression": "ADD jobs :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    try:
        db.transact_write_items(TransactItems=[{"Put": store_key}, {"Update": add_job}])
    except db.exceptions.TransactionCanceledException as error:
        if error.response["CancellationReasons"][0]["Code"] != "ConditionalCheckFailed":
            raise
