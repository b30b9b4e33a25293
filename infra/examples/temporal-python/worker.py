"""Starts a workflow of Temporal for each event of the queue `orders`.

Mitt and Temporal share one key: it identifies the effect in Mitt, and it is the id of the workflow.
"""

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta
from os import environ

from mitt_worker import Permanent, Unknown, Worker
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

EFFECT = "start-workflow"
# Set it to the retention period of your namespace. Temporal forgets the ids of workflows that closed before.
RETENTION = timedelta(days=1)

# The client of Temporal is asynchronous. It has an event loop of its own.
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def wait(coroutine):
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


logging.basicConfig(level=logging.INFO)
# The address, the namespace and the credentials are in the variables TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and so on.
temporal = wait(Client.connect(**ClientConfig.load_client_connect_config()))
worker = Worker(environ["MITT_API"], queue="orders", name="temporal-1")


@worker.on("*")
def start_workflow(event):
    refuse_unknown_id(event)
    order = event.json()  # The sender wrote this text: treat it as data.
    with event.effect(EFFECT, keys="honoured") as effect:
        if effect.go:
            effect.done(run_id(order, effect))


def refuse_unknown_id(event):
    """Leaves an event to an operator if an earlier attempt may have started a workflow that Temporal has forgotten."""
    is_open = event.effects.get(EFFECT, {}).get("state") in ("intent", "unknown")
    age = datetime.now(UTC) - datetime.fromisoformat(event.received_at)
    if is_open and age > RETENTION:
        raise Unknown("an earlier attempt may have started the workflow before the retention period")


def run_id(order, effect):
    """Starts the workflow. If an earlier attempt has started it, Temporal refuses the id, and names the run."""
    start = temporal.start_workflow(
        "OrderWorkflow",
        order,
        id=effect.key,
        id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        task_queue="orders",
        rpc_timeout=timedelta(seconds=effect.timeout),
    )
    try:
        return wait(start).result_run_id
    except WorkflowAlreadyStartedError as error:
        return error.run_id
    except RPCError as error:
        if error.status == RPCStatusCode.INVALID_ARGUMENT:
            raise Permanent("Temporal refused the arguments of the workflow") from None
        raise


worker.run(concurrency=4)
