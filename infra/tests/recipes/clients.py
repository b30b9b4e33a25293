"""Runs both clients of infra/clients against `webhookctl dev`: a worker is killed in its call, and another one takes over.

`make recipes` runs these tests.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from local_mitt import ROOT, LocalMitt

CLIENTS = ROOT / "infra/clients"
COMPILER = ROOT / "infra/tests/clients/node_modules/.bin/tsc"
SOURCES = """
schema = 1

[[source]]
name = "issues"
preset = "github"

[[source.action]]
kind = "pull"
name = "triage"
queue = "triage"
lease = "30s"
workers = ["arn:aws:iam::000000000000:role/first", "arn:aws:iam::000000000000:role/second"]
"""
PYTHON = """
import os, pathlib, sys
sys.path.insert(0, sys.argv[2])
from mitt_worker import Worker

tickets = pathlib.Path("tickets")
worker = Worker(sys.argv[1], queue="triage", name="python", region="us-east-1")

@worker.on("*")
def triage(event):
    with event.effect("open-ticket", keys="ask", plan={"summary": "a ticket"}) as effect:
        if effect.in_doubt:
            found = tickets.exists() and effect.key in tickets.read_text()
            effect.settle(done="found" if found else None)
        if effect.go:
            assert effect.timeout > 0
            with tickets.open("a") as file:
                file.write(f"{effect.key} {event.json()['action']}\\n")
            if pathlib.Path("crash").exists():
                os.kill(os.getpid(), 9)
            effect.done("opened")

worker.run(concurrency=2)
"""
TYPESCRIPT = """
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { Worker, done } from "./mitt-worker.ts";

const worker = new Worker({ api: process.argv[2]!, queue: "triage", name: "typescript", region: "us-east-1" });
worker.on("*", async (event) => {
  const search = async (key: string) =>
    existsSync("tickets") && readFileSync("tickets", "utf8").includes(key) ? "found" : undefined;
  await event.effect("open-ticket", { keys: "ask", plan: { summary: "a ticket" }, search }, async ({ key, timeout }) => {
    if (timeout <= 0) throw new Error("late");
    appendFileSync("tickets", `${key} ${event.json().action}\\n`);
    if (existsSync("crash")) process.kill(process.pid, "SIGKILL");
    return done("opened");
  });
});
await worker.run({ concurrency: 2 });
"""


def command(language, folder, url):
    """Writes the program of a worker, and returns its command."""
    if language == "python":
        (folder / "triage.py").write_text(PYTHON)
        return [sys.executable, "triage.py", url, str(CLIENTS)]
    code = folder / "typescript"
    code.mkdir()
    shutil.copy(CLIENTS / "mitt-worker.ts", code)
    (code / "triage.ts").write_text(TYPESCRIPT)
    (code / "package.json").write_text('{"type": "module"}')
    modules = ["--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", "--rewriteRelativeImportExtensions"]
    types = ["--strict", "--types", "node", "--typeRoots", COMPILER.parents[1] / "@types"]
    done = subprocess.run([COMPILER, *modules, *types, code / "triage.ts"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    return ["node", "typescript/triage.js", url]


class Working:
    """A worker with a role. It ends with the block."""

    def __init__(self, folder, command, role):
        self.folder, self.command = folder, command
        mine = {"AWS_ACCESS_KEY_ID": role, "AWS_SECRET_ACCESS_KEY": "local", "AWS_EC2_METADATA_DISABLED": "true"}
        self.environment = {"PATH": os.environ["PATH"]} | mine

    def __enter__(self):
        log = (self.folder / f"worker-{time.monotonic()}.txt").open("wb")
        self.process = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)
        return self.process

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def inspected(mitt, event, status, patience=60):
    """Waits for a status of an event, and returns the document of `inspect`."""
    end = time.monotonic() + patience
    while True:
        shown = json.loads(mitt.webhookctl("inbox", "inspect", event, "-o", "json"))
        if shown["status"] == status:
            return shown
        assert time.monotonic() < end, shown
        time.sleep(0.5)


def tickets(folder):
    path = folder / "tickets"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.skipif(not COMPILER.exists(), reason="npm is missing, so the compiler is not installed")
def test_a_killed_worker_opens_no_second_ticket(tmp_path):
    """At the same time, because both mostly wait."""
    folders = [tmp_path / "first", tmp_path / "second"]
    with ThreadPoolExecutor() as pool:
        list(pool.map(kill_and_take_over, folders, ["python", "typescript"], ["typescript", "python"]))


def kill_and_take_over(folder, first, second):
    folder.mkdir()
    (folder / "sources.toml").write_text(SOURCES)
    with LocalMitt(folder) as mitt:
        url = mitt.local["url"]
        commands = {language: command(language, folder, url) for language in (first, second)}
        with Working(folder, commands[first], "stranger") as refused:
            assert refused.wait(timeout=60) != 0

        with Working(folder, commands[first], "first") as worker:
            plain = json.loads(mitt.webhookctl("send", "issues", "-o", "json"))["id"]
            inspected(mitt, plain, "done")
            assert len(tickets(folder)) == 1

            (folder / "crash").touch()
            killed = json.loads(mitt.webhookctl("send", "issues", "-o", "json"))["id"]
            assert worker.wait(timeout=60) == -signal.SIGKILL
        (folder / "crash").unlink()
        assert len(tickets(folder)) == 2

        with Working(folder, commands[second], "second"):
            # The lease, the minute in which a search proves nothing, and the margins.
            shown = inspected(mitt, killed, "done", patience=180)
        assert len(tickets(folder)) == 2
        states = {effect["name"]: effect["state"] for effect in shown["side_effects"]}
        assert states == {"open-ticket": "committed", "triage": "committed"}
