"""The same job with Powertools for AWS Lambda: its idempotency utility writes the row of the event.

https://docs.aws.amazon.com/powertools/python/latest/utilities/idempotency/
"""

import os

import boto3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent
from signature import is_verified

SQS = boto3.client("sqs")
QUEUE_URL = os.environ["MITT_QUEUE_URL"]

STORE = DynamoDBPersistenceLayer(table_name=os.environ["MITT_TABLE"], key_attr="pk", sort_key_attr="sk")
CONFIG = IdempotencyConfig(event_key_jmespath="powertools_json(body).id")


# The row of the utility does not contain the webhook, so the message does.
@idempotent(config=CONFIG, persistence_store=STORE)
def send_once(event, _context):
    SQS.send_message(QueueUrl=QUEUE_URL, MessageBody=event["body"])
    return {"statusCode": 200, "body": ""}


# The utility stores the first answer for an event id, so a webhook with a wrong signature must not reach it.
def handler(event, context):
    if not is_verified(event):
        return {"statusCode": 401, "body": ""}
    return send_once(event, context)
