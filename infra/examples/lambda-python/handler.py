"""Handles the events of the source stripe-main.

Mitt invokes this function once for each event. IAM protects the function, so the document has no signature.
"""

import base64
import json
import os

import boto3

db = boto3.client("dynamodb")
TABLE = os.environ["TABLE"]


class PermanentError(Exception):
    """With permanent_errors = ["PermanentError"] in the action, this error ends the event.

    Mitt repeats the invocation after any other error.
    """


def handler(document, context):
    handle(document["event"]["idempotencyKey"], parsed(document))


def parsed(document):
    body = document["body"]
    try:
        event = json.loads(base64.b64decode(body) if document["isBase64"] else body)
    except ValueError:
        raise PermanentError("the body is not JSON") from None
    if not isinstance(event, dict):
        raise PermanentError("the body is not an object")
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
