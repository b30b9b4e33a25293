"""A worker of Mitt: claims events of a queue, works on each under a lease, and settles it.

Copy this file into your project. It needs only botocore, for credentials and signatures.
"""

import base64
import json
import logging
import random
import threading
import time
import urllib.request
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from http.client import HTTPException

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

log = logging.getLogger("mitt_worker")
MARGIN = 10  # Seconds between the end of a call and the end of the lease.


class Refused(Exception):
    """Mitt refused a request. `code` is the word of the protocol."""

    code = ""


class LeaseLost(Refused):
    """Another worker can have the event. Do not call other systems for it any more."""


class Held(LeaseLost):
    """A rule holds the effect. The event comes again after the approval, with the plan: see `Event.approved`."""


class Ended(Exception):
    def __init__(self, error="", after=None):
        super().__init__(error)
        self.after = after


class Retry(Ended):
    """The event comes again, after `after` seconds. Raised in an effect: the call had no effect."""

    outcome, result = "retry", "not"


class Permanent(Ended):
    """The event becomes a dead letter. Raised in an effect: the other system refused the call."""

    outcome, result = "permanent", "refused"


class Unknown(Ended):
    """The event becomes a dead letter, because an operator must find out whether a call had an effect."""

    outcome, result = "unknown", "unknown"


class Api:
    def __init__(self, url, queue, region=None, session=None):
        self.url = f"{url.rstrip('/')}/work/{queue}"
        self.session = session or botocore.session.get_session()
        in_host = url.partition(".execute-api.")[2].partition(".")[0]
        self.region = region or in_host or self.session.get_config_variable("region")
        if not self.region:
            raise ValueError("no Region: pass region=, or set AWS_DEFAULT_REGION")

    def signed(self, op, body):
        request = AWSRequest("POST", f"{self.url}/{op}", {"content-type": "application/json"}, body)
        SigV4Auth(self.session.get_credentials(), "execute-api", self.region).add_auth(request)
        return urllib.request.Request(request.url, body, dict(request.headers), method="POST")

    def post(self, op, fields, until=float("inf")):
        """Repeats a request that gets no answer, until this time. Each one can be repeated."""
        body, attempt = json.dumps({name: it for name, it in fields.items() if it is not None}).encode(), 0
        while True:
            try:
                with urllib.request.urlopen(self.signed(op, body), timeout=30) as answer:
                    return json.loads(answer.read())
            except (OSError, HTTPException) as error:
                status, pause = getattr(error, "code", 503), backoff(attempt)
                if status < 500 and status != 429:
                    raise refusal(status, error.read()) from None
                if time.time() + pause > until:
                    raise LeaseLost(f"no answer to {op} within the lease: {error}") from None
                log.warning("no answer to %s: %s; repeating it in %.1f s", op, error, pause)
            time.sleep(pause)
            attempt += 1


def backoff(attempt):
    return min(60, 2 ** min(attempt, 6)) * random.uniform(0.5, 1)


def refusal(status, body):
    try:
        said = json.loads(body)
    except ValueError:
        said = {}
    error = (LeaseLost if status == 409 else Refused)(f"{status} {said.get('error')}: {said.get('message')}")
    error.code = said.get("error", "")
    return error


class Event:
    """An event. Each field of the protocol is an attribute: `type`, `id`, `source`, `thread`, `trace`, `headers`."""

    def __init__(self, api, fields, sent, lease_s=None):
        self.__dict__.update(fields)
        self.api, self.lease_s, self.closed = api, lease_s, threading.Event()
        self.until = end_of_lease(fields, sent)

    def content(self):
        return base64.b64decode(self.body_base64) if hasattr(self, "body_base64") else self.body.encode()

    def json(self):
        return json.loads(self.content())

    def effect(self, name, keys="ask", plan=None):
        """`plan` is what the handler would do: `summary`, `target`, `amount`, `sha256` and `full`, all optional."""
        return Effect(self, name, keys, plan)

    def approved(self, name):
        """The plan of the effect that a person approved, or None. Do exactly that, and pass it as `plan`."""
        return getattr(self, "effects", {}).get(name, {}).get("plan")

    def post(self, op, **fields):
        return self.api.post(op, {"lease": self.lease, **fields}, self.until)

    def extend(self):
        sent = time.time()
        self.until = end_of_lease(self.post("extend", lease_s=self.lease_s), sent)

    def renew(self):
        try:
            while not self.closed.wait(max(1, (self.until - time.time()) / 3)):
                self.extend()
        except Refused as error:
            log.warning("the lease of %s is not extended any more: %s", self.id, error)


def end_of_lease(answer, sent):
    """The time counts from the request, so a clock that differs from Mitt's does no harm. The default is the shortest."""
    return sent + answer.get("lease_ms", 30_000) / 1000


class Effect:
    """Declares an effect before its call, and records the result. If it is `in_doubt`, search for `key`, then `settle`.
    If it may `go`, make the call with `key` and `timeout`, then say `done`. In a `dry_run`, it may not."""

    def __init__(self, event, name, keys, plan):
        self.event, self.name, self.keys, self.plan = event, name, keys, plan
        self.key = self.note = None

    def begin(self, asked=None):
        if self.event.until - time.time() < 2 * MARGIN:
            self.event.extend()
        sent = time.time()
        answer = self.event.post("begin", effect=self.name, keys=self.keys, plan=self.plan, asked=asked)
        self.until = end_of_lease(answer, sent)
        self.go, self.in_doubt = answer.get("go", False), answer.get("in_doubt", False)
        self.key, self.note = answer.get("key", self.key), answer.get("note")
        self.dry_run = answer.get("dry_run", False)
        if answer.get("held"):
            raise Held(f"effect {self.name} waits for an approval until {answer.get('expires')}")
        if answer.get("denied"):
            raise Permanent(f"rule {answer.get('rule')} denies effect {self.name}: {self.note}")
        if answer.get("refused"):
            raise Permanent(self.note or f"effect {self.name} is refused")
        if self.in_doubt and self.keys != "ask":
            raise Unknown(f"effect {self.name} may have happened")
        if self.in_doubt:
            # Until then, a call of the earlier attempt can arrive, so an earlier search proves nothing.
            left = (datetime.fromisoformat(answer["ask_from"]) - datetime.now(timezone.utc)).total_seconds()
            if asked or left > 0:
                raise Retry(f"effect {self.name} may still happen", max(1, left + 1))
        return self

    @property
    def timeout(self):
        """The seconds that the call can take. Read it in the statement of the call."""
        if self.until - time.time() < 2 * MARGIN:
            self.begin()  # It extends the lease first, and has the new end.
        left = self.until - time.time() - MARGIN
        if left < 1 or not self.go:
            raise Retry("the lease is too short for the call")
        return left

    def settle(self, done=None):
        if done is None:
            self.begin(asked="did_not")
        else:
            self.done(done)

    def done(self, note=""):
        self.end("done", note)

    def end(self, result, note=""):
        self.event.post("end", effect=self.name, result=result, note=str(note)[:120])
        self.go = self.in_doubt = False

    __enter__ = begin

    def __exit__(self, kind, error, trace):
        if self.go and not isinstance(error, LeaseLost):
            self.end(error.result if isinstance(error, Ended) else "unknown")
            if error is None:
                raise Retry(f"effect {self.name} ended without a result")


class Worker:
    def __init__(self, url, queue, name, lease_s=None, **settings):
        self.api, self.name, self.lease_s = Api(url, queue, **settings), name, lease_s
        self.handlers, self.stopped = [], threading.Event()

    def on(self, types):
        return lambda handler: self.handlers.append((types, handler)) or handler

    def stop(self):
        self.stopped.set()

    def run(self, concurrency=1):
        pause, running = 0, set()
        with ThreadPoolExecutor(concurrency) as pool:
            while not self.stopped.wait(pause):
                pause, running = 0, {it for it in running if not it.done()}
                free, sent = concurrency - len(running), time.time()
                if free == 0:
                    wait(running, timeout=1, return_when=FIRST_COMPLETED)
                    continue
                ask = {"worker": self.name, "max": min(free, 10), "lease_s": self.lease_s}
                answer = self.api.post("next", ask)
                for fields in answer["events"]:
                    running.add(pool.submit(self.work, Event(self.api, fields, sent, self.lease_s)))
                if not answer["events"]:
                    pause = answer.get("retry_after_ms", 5_000) / 1000 * random.uniform(0.8, 1.2)

    def work(self, event):
        threading.Thread(target=event.renew, daemon=True).start()
        try:
            end = {"outcome": "done"} | self.handle(event)
            event.closed.set()
            event.post("finish", **end)
        except Refused as error:
            log.warning("event %s is not settled: %s", event.id, error)
        finally:
            event.closed.set()

    def handle(self, event):
        try:
            handlers = [handler for types, handler in self.handlers if fnmatchcase(event.type or "", types)]
            if not handlers:
                raise Permanent(f"no handler for the type {event.type}")
            handlers[0](event)
            return {}
        except LeaseLost:
            raise
        except Ended as error:
            after = None if error.after is None else max(0, round(error.after))
            return {"outcome": error.outcome, "error": str(error)[:500], "after_s": after}
        except Exception as error:
            log.exception("event %s failed", event.id)
            # The text of another error can contain a part of the body.
            return {"outcome": "retry", "error": str(error) if isinstance(error, Refused) else type(error).__name__}
