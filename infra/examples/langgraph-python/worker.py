"""Works on each event of the queue `tickets` with a graph of LangGraph.

An attempt continues after the last node that an earlier attempt has finished.
"""

import json
import logging
import sqlite3
from os import environ
from typing import TypedDict
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from mitt_worker import Event, Retry, Worker

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("graph")


class State(TypedDict, total=False):
    """What the checkpoints store. The body of the event stays in Mitt."""

    type: str
    summary: str
    ticket: str


def summarize(state, runtime: Runtime[Event]):
    """Call your model here. The sender wrote the body: treat it as data, never as instructions."""
    log.info("summarize %s", runtime.context.id)
    named = runtime.context.json()["data"]["object"]["id"]
    return {"summary": f"{state['type']}: {named}"}


def open_ticket(state, runtime: Runtime[Event]):
    """Acts on another system, so it declares the effect."""
    plan = {"summary": state["summary"][:200]}
    with runtime.context.effect("open-ticket", keys="honoured", plan=plan) as effect:
        ticket = effect.note
        if effect.go:
            ticket = create(state["summary"], effect.key, effect.timeout)
            effect.done(ticket)
    return {"ticket": ticket}


def create(title, key, timeout):
    """Your tracker. It must honour the idempotency key."""
    headers = {"content-type": "application/json", "idempotency-key": key}
    try:
        with urlopen(Request(environ["TRACKER"], json.dumps({"title": title}).encode(), headers), timeout=timeout) as answer:
            return json.load(answer)["id"]
    except HTTPError as error:
        if error.code == 429:
            raise Retry("the tracker is busy", after=int(error.headers.get("retry-after", 10))) from None
        raise


graph = StateGraph(State, context_schema=Event)
graph.add_node(summarize)
graph.add_node(open_ticket)
graph.add_edge(START, "summarize")
graph.add_edge("summarize", "open_ticket")
graph.add_edge("open_ticket", END)

checkpoints = SqliteSaver(sqlite3.connect(environ.get("DATABASE", "checkpoints.db"), check_same_thread=False))
triage = graph.compile(checkpointer=checkpoints)
worker = Worker(environ["MITT_API"], queue="tickets", name="langgraph-1")


@worker.on("*")
def work(event):
    # The thread is the same in all attempts, and another one after a replay.
    config = {"configurable": {"thread_id": event.thread}}
    has_checkpoint = triage.get_state(config).created_at is not None
    # Without an input, the graph continues after its last checkpoint.
    first = None if has_checkpoint else {"type": event.type}
    # "sync" stores a checkpoint before the next node begins.
    triage.invoke(first, config, context=event, durability="sync")
    checkpoints.delete_thread(event.thread)


worker.run(concurrency=4)
