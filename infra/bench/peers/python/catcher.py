"""A typical catcher in Python: verifies a webhook, stores it, sends its message, and answers."""

import json
import os

import boto3
from signature import is_verified

DYNAMODB = boto3.client("dynamodb")
SQS = boto3.client("sqs")
TABLE = os.environ["MITT_TABLE"]
QUEUE_URL = os.environ["MITT_QUEUE_URL"]


def handler(event, _context):
    if not is_verified(event):
        return {"statusCode": 401, "body": ""}
    body = event["body"]
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
