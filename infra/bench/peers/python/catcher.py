"""A typical catcher in Python: verifies a webhook, stores it, sends its message, and answers."""

import hashlib
import hmac
import json
import os
import time

import boto3

DYNAMODB = boto3.client("dynamodb")
SQS = boto3.client("sqs")
SECRET = os.environ["SIGNING_SECRET"].encode()
TABLE = os.environ["MITT_TABLE"]
QUEUE_URL = os.environ["MITT_QUEUE_URL"]


# https://docs.stripe.com/webhooks#verify-manually
def is_verified(signature, body):
    parts = dict(part.split("=", 1) for part in signature.split(",") if "=" in part)
    wanted = hmac.new(SECRET, f"{parts.get('t')}.{body}".encode(), hashlib.sha256).hexdigest()
    is_recent = abs(time.time() - int(parts.get("t", 0))) < 300
    return is_recent and hmac.compare_digest(wanted, parts.get("v1", ""))


def handler(event):
    body = event["body"]
    if not is_verified(event["headers"].get("stripe-signature", ""), body):
        return {"statusCode": 401, "body": ""}
    key = f"E#stripe-main#{json.loads(body)['id']}"
    try:
        DYNAMODB.put_item(
            TableName=TABLE,
            Item={"pk": {"S": key}, "sk": {"S": "M"}, "b": {"S": body}, "st": {"S": "new"}},
            ConditionExpression="attribute_not_exists(pk)",
        )
    except DYNAMODB.exceptions.ConditionalCheckFailedException:
        pass
    SQS.send_message(QueueUrl=QUEUE_URL, MessageBody=json.dumps({"key": key}))
    return {"statusCode": 200, "body": ""}
