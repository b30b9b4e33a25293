"""Receives the events of the source stripe-main.

Mitt signs each request as Standard Webhooks (sign = "standard"), with the secret stripe-main.
"""

import json
import os
import sqlite3
from contextlib import closing

from flask import Flask, request
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
app = Flask(__name__)


def connect():
    # Use the database of your service instead: the keys must be in the database that the work changes.
    return closing(sqlite3.connect(os.environ.get("DATABASE", "receiver.db"), timeout=2))


with connect() as db:
    db.execute("CREATE TABLE IF NOT EXISTS handled (key TEXT PRIMARY KEY)")
    db.execute("CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")


def handle(key, event):
    """Stores the key and does the work in one transaction. If the key is stored already, the work is done."""
    with connect() as db, db:
        stored = db.execute("INSERT INTO handled (key) VALUES (?) ON CONFLICT DO NOTHING", [key])
        if stored.rowcount == 1:
            db.execute("INSERT INTO jobs (body) VALUES (?)", [json.dumps(event)])  # your work


@app.post("/webhooks")
def receive():
    try:
        # The signature covers the exact bytes.
        event = webhook.verify(request.get_data(), request.headers)
    except json.JSONDecodeError:
        return "", 422  # a signed body that is not JSON will never be JSON: this ends the event
    except (WebhookVerificationError, ValueError):
        return "", 401
    if not isinstance(event, dict):
        return "", 422
    try:
        # webhook-id is the idempotency key, and the signature covers it.
        handle(request.headers["webhook-id"], event)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise  # Flask responds with 500, and Mitt repeats the request
        return "", 429, {"retry-after": "10"}
    return "", 200
