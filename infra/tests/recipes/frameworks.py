"""Runs the recipes of workers with a framework. A worker is killed in its call, and the next one repeats the call.

`make recipes` runs these tests. The frameworks are not changed. The services that they call are played by
temporal_service.py and http_services.py.
"""

import asyncio
import importlib.util
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest
from clients import CLIENTS, COMPILER, inspected
from local_mitt import ROOT, LocalMitt
from receivers import EXAMPLES

sys.path.insert(0, str(ROOT / "infra/tests/clients"))

from work_api import KEYS, StandIn  # noqa: E402


class Recipe:
    """The packages, the queue and the effect of a recipe, and the word of the variable with the address of its service."""

    def __init__(self, package, queue, effect, variable, **environment):
        self.package, self.queue, self.effect, self.variable = package, queue, effect, variable
        self.environment = environment

    def service(self):
        # The packages of the services are missing if those of the recipes are.
        if self.package == "temporalio":
            from temporal_service import TemporalService as Service
        else:
            from http_services import InngestApi, Tracker

            Service = InngestApi if self.package == "inngest" else Tracker
        return Service()


RECIPES = {
    "temporal-python": Recipe("temporalio", "orders", "start-workflow", "TEMPORAL_ADDRESS"),
    "inngest-node": Recipe("inngest", "orders", "send-event", "INNGEST_BASE_URL", INNGEST_EVENT_KEY="key"),
    "langgraph-python": Recipe("langgraph", "tickets", "open-ticket", "TRACKER"),
}


def needs_packages(name):
    """Skips a test if the framework is not installed. On GitHub, the test fails instead."""
    package, missing = RECIPES[name].package, None
    if name.endswith("-node"):
        installed = shutil.which("node") and (EXAMPLES / name / "node_modules" / package).exists() and COMPILER.exists()
        missing = None if installed else "Node with its packages, which `make recipes` installs if npm is there"
    elif not all(importlib.util.find_spec(word) for word in [package, *(["grpc"] if package == "temporalio" else [])]):
        missing = f"the package {package}, which `make recipes` installs"
    if missing:
        (pytest.fail if os.environ.get("GITHUB_ACTIONS") else pytest.skip)(f"the recipe {name} needs {missing}")


def prepare(name, folder):
    """Copies the recipe and its client into a folder."""
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("node_modules"))
    if name.endswith("-python"):
        shutil.copy(CLIENTS / "mitt_worker.py", folder)
        return
    shutil.copy(CLIENTS / "mitt-worker.ts", folder)
    (folder / "node_modules").symlink_to(EXAMPLES / name / "node_modules")
    # Node 22.18 runs TypeScript as it is. The compiler checks the types, too.
    modules = ["--target", "es2022", "--module", "nodenext", "--rewriteRelativeImportExtensions", "--skipLibCheck"]
    strict = ["--strict", "--noUnusedLocals", "--erasableSyntaxOnly", "--types", "node"]
    compiler = [COMPILER, *modules, *strict, "--typeRoots", COMPILER.parents[1] / "@types", "worker.ts"]
    done = subprocess.run(compiler, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout


class Running:
    """A worker of a recipe, which is prepared in its folder. It ends with the block."""

    def __init__(self, name, folder, url, service, access_key="test", **environment):
        recipe = RECIPES[name]
        self.command = [sys.executable, "worker.py"] if name.endswith("-python") else ["node", "worker.js"]
        self.folder, self.log = folder, folder / "log.txt"
        mine = {
            "AWS_ACCESS_KEY_ID": access_key, "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1", "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1",
            "MITT_API": url, recipe.variable: service.address,
        }
        self.environment = {"PATH": os.environ["PATH"]} | mine | recipe.environment | environment

    def __enter__(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.wait(30)

    def kill(self):
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)


def sources(name):
    """Returns the file that the README shows, with a short lease and short waits."""
    readme = (EXAMPLES / name / "README.md").read_text()
    [file] = re.findall(r"^```toml\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    file = file.replace('kind = "pull"\n', 'kind = "pull"\nlease = "30s"\n')
    return file.replace('preset = "stripe"\n', 'preset = "stripe"\nretry = { waits = ["5s"] }\n')


class Story:
    """A recipe at the local stack: what its service and Mitt have after two events. The worker is killed in the second
    one, after the service has handled the request and before its answer arrives."""

    def __init__(self, name, folder):
        folder.mkdir()
        (folder / "sources.toml").write_text(sources(name))
        with LocalMitt(folder) as mitt, RECIPES[name].service() as service:
            prepare(name, folder / "worker")
            running = lambda: Running(name, folder / "worker", mitt.local["url"], service)
            with running() as first:
                mitt.webhookctl("send", "stripe-main", "--wait")
                self.once = [*service.effects()]
                service.after_next = first.kill
                self.event = json.loads(mitt.webhookctl("send", "stripe-main", "-o", "json"))["id"]
                self.killed = first.process.wait(60)
                self.before = [*service.effects()]
            if name == "temporal-python":
                service.started[-1].close()
            if name == "langgraph-python":
                service.busy = 1
            with running() as second:
                self.shown = inspected(mitt, self.event, "done", patience=180)
            self.after, self.requests, self.log = service.effects(), len(service.requests), second.log.read_text()
            self.folder = second.folder


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """Runs all recipes at the same time, because they mostly wait for the end of a lease."""
    folder, names = tmp_path_factory.mktemp("frameworks"), [name for name in RECIPES if is_installed(name)]
    with ThreadPoolExecutor() as pool:
        return {name: pool.submit(Story, name, folder / name) for name in names}


def is_installed(name):
    try:
        needs_packages(name)
    except (pytest.skip.Exception, pytest.fail.Exception):
        return False
    return True


@pytest.mark.parametrize("name", RECIPES)
def test_a_killed_worker_has_one_effect(name, request):
    needs_packages(name)
    story = request.getfixturevalue("stories")[name].result()

    assert len(story.once) == 1, story.log
    assert story.killed == -signal.SIGKILL and len(story.before) == 2
    # The second worker made the call again, with the same key.
    assert story.after == story.before and story.requests >= 3, story.log
    effects = {effect["name"]: effect["state"] for effect in story.shown["side_effects"]}
    assert effects[RECIPES[name].effect] == "committed"


def test_a_graph_continues_after_the_last_node(request):
    """The worker was killed in the second node, and the next attempt found a busy tracker."""
    needs_packages("langgraph-python")
    story = request.getfixturevalue("stories")["langgraph-python"].result()

    assert story.requests == 4, story.log
    assert story.log.count(f"summarize {story.event}") == 1, story.log
    with closing(sqlite3.connect(story.folder / "checkpoints.db")) as db:
        assert db.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)


def handed_out(name, state, age):
    """Returns an event with an effect that an earlier attempt left in this state."""
    received = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return {
        "lease": "lease-1", "lease_ms": 60_000, "id": "01A", "key": "s:1", "source": "s", "trace": "00-1-1-01",
        "type": "invoice.paid", "thread": "01A.1", "body": '{"data": {"object": {"id": "in_1"}}}', "received_at": received,
        "effects": {RECIPES[name].effect: {"state": state, "key": "wh_1"}} if state else {},
    }


@contextmanager
def asked(name, folder, service, event):
    """Hands out an event to the recipe, and yields what it asks of Mitt until the event is finished."""
    go = [(200, {"go": True, "key": "wh_1", "lease_ms": 60_000})]
    credentials = {"AWS_SECRET_ACCESS_KEY": KEYS.secret_key, "AWS_SESSION_TOKEN": KEYS.token}
    prepare(name, folder / "worker")
    with StandIn([event], queue=RECIPES[name].queue, begin=go) as stand_in:
        with Running(name, folder / "worker", stand_in.url, service, KEYS.access_key, **credentials) as running:
            assert stand_in.wait("finish"), running.log.read_text()
            yield [(op, fields.get("outcome") or fields.get("result")) for op, fields in stand_in.said("begin", "end", "finish")]


DAY = timedelta(days=1)


@pytest.mark.parametrize("name", ["temporal-python", "inngest-node"])
@pytest.mark.parametrize(
    "state, age, is_repeated",
    [("intent", DAY, False), ("unknown", DAY, False), ("intent", DAY / 2, True), ("not", 2 * DAY, True), (None, 2 * DAY, True)],
)
def test_a_call_is_not_repeated_with_a_forgotten_key(name, state, age, is_repeated, tmp_path):
    needs_packages(name)
    event = handed_out(name, state, age)
    with RECIPES[name].service() as service, asked(name, tmp_path, service, event) as said:
        repeated = [("begin", None), ("end", "done"), ("finish", "done")]
        assert said == (repeated if is_repeated else [("finish", "unknown")])
        assert service.effects() == (["wh_1"] if is_repeated else [])


def test_arguments_that_temporal_refuses_are_permanent(tmp_path):
    needs_packages("temporal-python")
    import grpc
    from temporal_service import TemporalService

    class Refusing(TemporalService):
        def StartWorkflowExecution(self, request, context):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "blob size exceeds limit")

    with Refusing() as service, asked("temporal-python", tmp_path, service, handed_out("temporal-python", None, DAY)) as said:
        assert said == [("begin", None), ("end", "refused"), ("finish", "permanent")]


@pytest.mark.parametrize(
    "policy, allowed",
    [
        ("ALLOW_DUPLICATE", {"failed", "completed", "forgotten"}),
        ("ALLOW_DUPLICATE_FAILED_ONLY", {"failed", "forgotten"}),
        ("REJECT_DUPLICATE", {"forgotten"}),
    ],
)
def test_the_service_of_the_tests_refuses_ids_as_temporal_does(policy, allowed):
    """The unmodified SDK judges the answers. https://docs.temporal.io/workflow-execution/workflowid-runid"""
    needs_packages("temporal-python")
    from temporal_service import TemporalService
    from temporalio.client import Client
    from temporalio.common import WorkflowIDReusePolicy
    from temporalio.exceptions import WorkflowAlreadyStartedError

    async def reusable(service):
        client, found = await Client.connect(service.address), set()
        start = lambda word: client.start_workflow("W", id=word, task_queue="q", id_reuse_policy=WorkflowIDReusePolicy[policy])
        for word in ("running", "failed", "completed", "forgotten"):
            await start(word)
            last = service.started[-1]
            if word != "running":
                last.close(completed=word != "failed", seconds_ago=service.retention if word == "forgotten" else 0)
            try:
                assert (await start(word)).result_run_id != last.run
                found.add(word)
            except WorkflowAlreadyStartedError as error:
                assert error.run_id == last.run
        return found

    with TemporalService() as service:
        assert asyncio.run(reusable(service)) == allowed


def test_the_event_api_of_the_tests_drops_ids_for_a_day():
    """The SDK of inngest-node judges the answers of a request. This is the time, which a test cannot wait for."""
    from http_services import InngestApi

    now = [time.time()]
    api = InngestApi(clock=lambda: now[0])
    for seconds in (0, 24 * 3600 - 1, 1):
        now[0] += seconds
        assert api.answer("/e/key", {}, '[{"id": "a", "name": "n"}]')[0] == 200
    assert api.effects() == ["a", "a"]
    assert api.answer("/e/key", {}, '{"id": "a"}')[0] == 400 and api.answer("/e/", {}, "[]")[0] == 404
