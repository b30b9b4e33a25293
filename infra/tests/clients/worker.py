"""The handlers of the tests, with the Python client: `worker.py URL QUEUE`. worker.mjs is the same program in TypeScript."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "clients"))

from mitt_worker import Held, Permanent, Retry, Unknown, Worker

worker = Worker(sys.argv[1], queue=sys.argv[2], name="test-1")


@worker.on("plain.ok")
def ok(event):
    assert event.json() == {"text": "café"}, event.content()


@worker.on("plain.retry")
def retry(event):
    raise Retry("try later", after=90)


@worker.on("plain.permanent")
def permanent(event):
    raise Permanent("not for us")


@worker.on("plain.unknown")
def unknown(event):
    raise Unknown("who knows")


@worker.on("plain.crash")
def crash(event):
    raise ValueError("a part of the body")


@worker.on("plain.slow")
def slow(event):
    time.sleep(3.5)


@worker.on("effect.done")
def effect_done(event):
    with event.effect("ticket", keys="honoured", plan={"summary": "one"}) as effect:
        if effect.go:
            assert effect.key == "wh_1" and 0 < effect.timeout <= 50, effect.timeout
            effect.done("T-1")


@worker.on("effect.planned")
def effect_planned(event):
    plan = event.approved("ticket") or {"summary": "own"}
    try:
        with event.effect("ticket", keys="honoured", plan=plan) as effect:
            effect.done(plan["summary"])
    except Held as held:
        assert "2026-11-29" in str(held)
        raise


@worker.on("effect.crash")
def effect_crash(event):
    with event.effect("ticket", keys="honoured"):
        raise TimeoutError("no answer")


@worker.on("effect.refused")
def effect_refused(event):
    with event.effect("ticket", keys="honoured"):
        raise Permanent("no such project")


@worker.on("effect.not")
def effect_not(event):
    with event.effect("ticket", keys="honoured"):
        raise Retry("busy")


@worker.on("effect.ask.*")
def effect_ask(event):
    with event.effect("ticket", keys="ask") as effect:
        if effect.in_doubt:
            effect.settle(done="T-0" if event.type.endswith("found") else None)
        if effect.go:
            effect.done("T-1")


@worker.on("effect.ignored")
def effect_ignored(event):
    with event.effect("ticket", keys="ignored") as effect:
        if effect.go:
            effect.done("T-1")


worker.run(concurrency=2)
