"""Invokes the recipes of Lambda functions and SQS consumers with what Mitt sends, and counts the effects.

`make recipes` runs these tests. The table is in a local Mitt. `lambda.json` and `sqs.json` are checked by a test of the
processor: they have the form of the requests that it makes.
"""

import base64
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import boto3
import pytest
from local_mitt import LocalMitt
from receivers import EXAMPLES, needs_interpreter

HERE = Path(__file__).parent
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
PLAIN, FIFO = "receiver", "receiver.fifo"


class Function:
    """A function with its table. Each event has its own type, which is the key of its count."""

    def __init__(self, name, db, table, endpoint):
        self.name, self.db, self.table = name, db, table
        program = ["node", HERE / "invoke.mjs"] if name.endswith("-node") else [sys.executable, HERE / "invoke.py"]
        [file] = [*EXAMPLES.glob(f"{name}/index.mjs"), *EXAMPLES.glob(f"{name}/handler.py")]
        self.command = [*program, file]
        self.environment = os.environ | CREDENTIALS | {
            "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL_DYNAMODB": endpoint, "TABLE": table,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def invoke(self, *payloads):
        """Invokes the function with all payloads at the same time. Returns the values and the types of the errors."""
        done = subprocess.run(
            self.command, input=json.dumps(payloads), env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        self.log = done.stderr
        return json.loads(done.stdout)

    def effects(self, word):
        item = self.db.get_item(TableName=self.table, Key={"pk": {"S": f"jobs#{word}"}}, ConsistentRead=True).get("Item", {})
        return int(item["jobs"]["N"]) if "jobs" in item else 0

    def break_the_work(self, word, broken):
        """Makes the update of the count fail, or removes the reason."""
        key = {"pk": {"S": f"jobs#{word}"}}
        if broken:
            self.db.put_item(TableName=self.table, Item=key | {"jobs": {"S": "no number"}})
        else:
            self.db.delete_item(TableName=self.table, Key=key)


@pytest.fixture(scope="module")
def mitt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mitt")
    (folder / "sources.toml").write_text("schema = 1\n")
    with LocalMitt(folder) as running:
        yield running


def function(name, mitt):
    needs_interpreter(name)
    endpoint = mitt.local["dynamodb"]
    db = boto3.client(
        "dynamodb", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    db.create_table(
        TableName=f"receiver-{name}", BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    return Function(name, db, f"receiver-{name}", endpoint)


@pytest.fixture(scope="module", params=["lambda-node", "lambda-python"])
def invoked(request, mitt):
    return function(request.param, mitt)


@pytest.fixture(scope="module", params=["sqs-node", "sqs-python"])
def consumer(request, mitt):
    return function(request.param, mitt)


def document(word, body=None):
    """Returns the payload with which the processor invokes a function."""
    payload = json.loads((HERE / "lambda.json").read_text())
    payload["event"]["idempotencyKey"] = f"wh_{secrets.token_hex(16)}"
    payload["body"] = json.dumps({"type": word}) if body is None else body
    return payload


def message(word, body=None, queue=PLAIN):
    """Returns a message of the processor in the form in which Lambda passes it to a consumer.

    https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
    """
    sent = json.loads((HERE / "sqs.json").read_text())
    sent["MessageAttributes"]["Idempotency-Key"]["StringValue"] = f"wh_{secrets.token_hex(16)}"
    named = {
        name: {"dataType": value["DataType"], "stringValue": value["StringValue"], "stringListValues": [], "binaryListValues": []}
        for name, value in sent["MessageAttributes"].items()
    }
    return {
        "messageId": secrets.token_hex(16),
        "receiptHandle": "handle",
        "body": json.dumps({"type": word}) if body is None else body,
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": named,
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:000000000000:{queue}",
    }


def batch(*records):
    return {"Records": list(records)}


def failed(result):
    return [item["itemIdentifier"] for item in result["value"]["batchItemFailures"]]


def new_word():
    return secrets.token_hex(8)


OK = {"value": None}
PERMANENT = {"errorType": "PermanentError"}


def test_a_document_has_its_effect_once(invoked):
    word = new_word()
    payload = document(word)

    assert invoked.invoke(payload) == [OK]
    assert invoked.invoke(payload) == [OK]
    assert invoked.effects(word) == 1


def test_ten_invocations_at_once_have_one_effect(invoked):
    word = new_word()

    results = invoked.invoke(*[document(word)] * 10)

    # DynamoDB may refuse a transaction because of another one. Mitt repeats such an invocation.
    assert OK in results and PERMANENT not in results, results
    assert invoked.effects(word) == 1


def test_a_body_in_base64_is_decoded(invoked):
    word = new_word()
    payload = document(word, base64.b64encode(json.dumps({"type": word}).encode()).decode()) | {"isBase64": True}

    assert invoked.invoke(payload) == [OK]
    assert invoked.effects(word) == 1


def test_a_document_that_can_never_be_handled_is_permanent(invoked):
    payloads = [document("", body) for body in ["", "{", "[1]", "null", '"text"']]

    assert invoked.invoke(*payloads) == [PERMANENT] * 5


def test_work_that_fails_is_repeated(invoked):
    word = new_word()
    payload = document(word)
    invoked.break_the_work(word, broken=True)
    [result] = invoked.invoke(payload)
    invoked.break_the_work(word, broken=False)

    assert "errorType" in result and result != PERMANENT
    assert invoked.invoke(payload) == [OK]
    assert invoked.effects(word) == 1


def test_a_message_has_its_effect_once(consumer):
    word = new_word()
    record = message(word)

    assert failed(consumer.invoke(batch(record))[0]) == []
    assert failed(consumer.invoke(batch(record, record))[0]) == []
    assert consumer.effects(word) == 1


def test_ten_batches_at_once_have_one_effect(consumer):
    word = new_word()
    record = message(word)

    results = [failed(result) for result in consumer.invoke(*[batch(record)] * 10)]

    assert [] in results, results
    assert consumer.effects(word) == 1


def test_a_message_in_base64_is_decoded(consumer):
    word = new_word()
    record = message(word, base64.b64encode(json.dumps({"type": word}).encode()).decode())
    record["messageAttributes"]["Content-Encoding"] = {"dataType": "String", "stringValue": "base64"}

    assert failed(consumer.invoke(batch(record))[0]) == []
    assert consumer.effects(word) == 1


def test_only_the_failed_messages_of_a_batch_come_again(consumer):
    words = [new_word() for _ in range(4)]
    records = [message(word) for word in words]
    records[1]["body"] = '{"secret":'
    consumer.break_the_work(words[2], broken=True)
    [result] = consumer.invoke(batch(*records))
    consumer.break_the_work(words[2], broken=False)

    assert failed(result) == [records[1]["messageId"], records[2]["messageId"]]
    assert [consumer.effects(word) for word in words] == [1, 0, 0, 1]
    assert records[1]["messageId"] in consumer.log and "secret" not in consumer.log
    assert failed(consumer.invoke(batch(*records))[0]) == [records[1]["messageId"]]
    assert [consumer.effects(word) for word in words] == [1, 0, 1, 1]


def test_a_fifo_queue_keeps_its_order_after_a_failure(consumer):
    words = [new_word() for _ in range(3)]
    records = [message(word, queue=FIFO) for word in words]
    records[1]["body"] = "[1]"

    [result] = consumer.invoke(batch(*records))

    assert failed(result) == [record["messageId"] for record in records[1:]]
    assert [consumer.effects(word) for word in words] == [1, 0, 0]
