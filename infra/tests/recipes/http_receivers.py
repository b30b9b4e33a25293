"""Sends requests as Mitt sends them to each recipe of an HTTP receiver, and counts the effects.

`make recipes` runs these tests. They need the packages of the recipes.
"""

import base64
import hashlib
import hmac
import http.client
import json
import secrets
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from receivers import EXAMPLES, HTTP, TABLE, Receiver, needs_interpreter

KEY = b"the key of the receivers, 32 byt"
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@pytest.fixture(scope="module", params=HTTP)
def receiver(request, tmp_path_factory):
    needs_interpreter(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    with Receiver(request.param, EXAMPLES / request.param, folder, SECRET) as running:
        yield running


class Event:
    """An event with a body and an idempotency key that no other event has."""

    def __init__(self, body=None):
        self.word = secrets.token_hex(8)
        # Not the form in which a JSON library would write it.
        self.body = body or f'{{ "id":"{self.word}",  "note": "caf\u00e9 \\u00e9"}}\n'.encode()
        self.key = f"wh_{secrets.token_hex(16)}"

    def headers(self, age=0, key=KEY, signed=None):
        at = int(time.time()) - age
        message = f"{self.key}.{at}.".encode() + (signed or self.body)
        signature = base64.b64encode(hmac.digest(key, message, hashlib.sha256)).decode()
        return {
            "content-type": "application/json",
            "idempotency-key": self.key,
            "mitt-attempt": "1",
            "mitt-source": "stripe-main",
            "webhook-id": self.key,
            "webhook-timestamp": str(at),
            "webhook-signature": f"v1,{signature}",
        }


def send(receiver, event, headers=None):
    """Returns the status of the response, and its headers."""
    with closing(http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=60)) as connection:
        connection.request("POST", "/webhooks", event.body, headers or event.headers())
        response = connection.getresponse()
        response.read()
        return response.status, response.headers


def test_a_good_event_has_its_effect_once(receiver):
    event = Event()

    assert send(receiver, event)[0] == 200
    assert receiver.effects(event.word) == 1


def test_a_repeated_event_has_no_second_effect(receiver):
    event = Event()

    assert [send(receiver, event)[0] for _ in range(3)] == [200, 200, 200]
    # Only webhook-id is signed, so another idempotency-key must not lead to a second effect.
    assert send(receiver, event, event.headers() | {"idempotency-key": "another"})[0] == 200
    assert receiver.effects(event.word) == 1


def test_ten_deliveries_at_once_have_one_effect(receiver):
    event = Event()

    with ThreadPoolExecutor(10) as pool:
        statuses = sorted(pool.map(lambda _: send(receiver, event)[0], range(10)))

    # A receiver may ask for a later delivery, but one of them has succeeded.
    assert statuses[0] == 200 and set(statuses) <= {200, 429}, statuses
    assert receiver.effects(event.word) == 1


def test_a_body_of_any_type_and_of_three_megabytes_is_verified(receiver):
    for kind in ["application/x-www-form-urlencoded", "text/plain; charset=utf-16", "multipart/form-data; boundary=b"]:
        event = Event()
        assert send(receiver, event, event.headers() | {"content-type": kind})[0] == 200, kind
        assert receiver.effects(event.word) == 1, kind
    large = Event()
    large.body = json.dumps({"id": large.word, "note": "x" * 3_000_000}).encode()
    assert send(receiver, large)[0] == 200
    assert receiver.effects(large.word) == 1


def test_a_tampered_body_is_refused(receiver):
    event = Event()
    signed, event.body = event.body, event.body.replace(b"note", b"nota")

    assert send(receiver, event, event.headers(signed=signed))[0] == 401
    assert receiver.effects(event.word) == 0


def test_another_secret_is_refused(receiver):
    event = Event()

    assert send(receiver, event, event.headers(key=b"another key"))[0] == 401
    assert receiver.effects(event.word) == 0


@pytest.mark.parametrize("age", [600, -600])
def test_a_timestamp_of_another_time_is_refused(receiver, age):
    event = Event()

    assert send(receiver, event, event.headers(age=age))[0] == 401
    assert receiver.effects(event.word) == 0


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_request_without_a_signature_is_refused(receiver, missing):
    event = Event()
    headers = event.headers()
    del headers[missing]

    assert send(receiver, event, headers)[0] == 401
    assert receiver.effects(event.word) == 0


@pytest.mark.parametrize(
    "wrong",
    [{"webhook-signature": "v1"}, {"webhook-signature": "v1,*"}, {"webhook-signature": "v2,x"}, {"webhook-timestamp": "now"}],
    ids=str,
)
def test_an_invalid_signature_is_refused(receiver, wrong):
    event = Event()

    assert send(receiver, event, event.headers() | wrong)[0] == 401
    assert receiver.effects(event.word) == 0


@pytest.mark.parametrize("body", [b'{"id":', b"not JSON", b"[1]", b"null", b'"text"', b"1"], ids=repr)
def test_an_event_that_can_never_be_handled_is_permanent(receiver, body):
    before = receiver.effects()

    assert send(receiver, Event(body))[0] == 422
    assert receiver.effects() == before


def test_a_busy_database_asks_for_a_later_attempt(receiver):
    event = Event()
    with closing(sqlite3.connect(receiver.database, isolation_level=None, timeout=10)) as db:
        db.execute("BEGIN IMMEDIATE")
        status, headers = send(receiver, event)
        db.execute("ROLLBACK")

    assert (status, headers["retry-after"]) == (429, "10")
    assert receiver.effects(event.word) == 0
    assert send(receiver, event)[0] == 200
    assert receiver.effects(event.word) == 1


def test_work_that_fails_stores_no_key(receiver):
    event, table = Event(), TABLE.get(receiver.name, "jobs")
    with closing(sqlite3.connect(receiver.database, isolation_level=None, timeout=10)) as db:
        db.execute(f"CREATE TRIGGER fails BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no work today'); END")
        failed = send(receiver, event)[0]
        db.execute("DROP TRIGGER fails")

    assert failed == 500
    assert receiver.effects(event.word) == 0
    assert send(receiver, event)[0] == 200
    assert receiver.effects(event.word) == 1
