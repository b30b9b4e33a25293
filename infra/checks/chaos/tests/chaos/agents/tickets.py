"""Opens a ticket for each event, with the Python client: `tickets.py CLIENTS API TRACKER HABIT`. tickets.ts is the same
program in TypeScript. CLIENTS is the folder of the client.

The tracker ignores idempotency keys, and can be searched for the key in a ticket. The habit `hasty` removes one protection:
this worker does not wait until a call of an earlier attempt can no longer arrive."""

import json
import sys
import time
import urllib.error
import urllib.request
from http.client import HTTPException

CLIENTS, API, TRACKER, HABIT = sys.argv[1:]
sys.path.insert(0, CLIENTS)

from mitt_worker import Retry, Worker  # noqa: E402

PATIENCE = 60  # Seconds in which a lost call arrives, or an operator is needed.

worker = Worker(API, queue="tickets", name="python", region="us-east-1")


def call(path, body=None, timeout=10):
    with urllib.request.urlopen(TRACKER + path, body, timeout=timeout) as answer:
        return json.loads(answer.read())["number"]


def search(key):
    return call(f"/tickets?reference={key}")


def create(event, key, timeout):
    ticket = {"reference": key, "source": event.source, "event": event.json()["id"], "run": event.run}
    try:
        return call("/tickets", json.dumps(ticket).encode(), timeout)
    except urllib.error.HTTPError as error:
        raise Retry("the tracker is busy") from error
    except (OSError, HTTPException):
        # The answer was lost. A ticket that is found was opened; a ticket that is not found can still be opened.
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if number := search(key):
                return number
            time.sleep(2)
        raise


@worker.on("*")
def open_ticket(event):
    earlier = event.effects.get("open-ticket", {})
    with event.effect("open-ticket", keys="ask" if HABIT == "careful" else "honoured") as effect:
        if effect.in_doubt:
            effect.settle(done=search(effect.key))
        elif effect.go and earlier.get("state") in ("intent", "unknown") and (found := search(effect.key)):
            effect.done(found)
        if effect.go:
            effect.done(create(event, effect.key, effect.timeout))


worker.run(concurrency=8)
