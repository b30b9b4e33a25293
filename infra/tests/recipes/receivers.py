"""Starts the recipes of infra/examples, and counts what they have done."""

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "infra/examples"
PYTHON = Path(sys.executable).parent
# Debian's package of the SQLite driver. Without it, Go downloads the module.
GO_MODULES = Path("/usr/share/gocode")

# The commands of each recipe: those that prepare it, and the one that runs it on a port.
HTTP = {
    "express": ([], ["npm", "start"]),
    "fastify": ([], ["npm", "start"]),
    "nextjs": ([["npx", "next", "build"]], ["npx", "next", "start", "--port", "{port}"]),
    "fastapi": ([], [PYTHON / "uvicorn", "main:app", "--port", "{port}"]),
    "flask": ([], [PYTHON / "flask", "run", "--port", "{port}"]),
    "django": (
        [[PYTHON / "python", "manage.py", "migrate"]],
        [PYTHON / "python", "manage.py", "runserver", "--noreload", "{port}"],
    ),
    "go": ([["go", "build", "-o", "{folder}/program", "."]], ["{folder}/program"]),
}
TABLE = {"django": "receiver_job"}


def needs_interpreter(name):
    """Skips a test if the interpreter of the recipe is not installed. On GitHub, the test fails instead."""
    program = {"go": "go", "express": "npm", "fastify": "npm", "nextjs": "npm", "lambda-node": "node", "sqs-node": "node"}
    if name in program and not shutil.which(program[name]):
        (pytest.fail if os.environ.get("GITHUB_ACTIONS") else pytest.skip)(f"the recipe {name} needs {program[name]}")


class Receiver:
    """A recipe that runs on a port of this machine, with its own database."""

    def __init__(self, name, source, folder, secret):
        self.name = name
        self.port = free_port()
        self.database = folder / "receiver.db"
        self.output = folder / "output.txt"
        self.environment = os.environ | {
            "DATABASE": str(self.database),
            "NEXT_TELEMETRY_DISABLED": "1",
            "PORT": str(self.port),
            "PYTHONDONTWRITEBYTECODE": "1",
            "WEBHOOK_SECRET": secret,
        }
        if name == "go":
            self.environment |= go_environment(source, folder)
        prepare, run = HTTP[name]
        filled = lambda command: [str(word).format(port=self.port, folder=folder) for word in command]
        for command in prepare:
            done = subprocess.run(filled(command), cwd=source, env=self.environment, capture_output=True, text=True)
            if name == "go" and "proxy.golang.org" in done.stderr and not os.environ.get("GITHUB_ACTIONS"):
                pytest.skip("the recipe go needs its SQLite driver: golang-github-mattn-go-sqlite3-dev, or the network")
            assert done.returncode == 0, done.stdout + done.stderr
        # A new session, so that `npm start` ends together with its child.
        self.process = subprocess.Popen(
            filled(run), cwd=source, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=self.output.open("wb"), stderr=subprocess.STDOUT, start_new_session=True,
        )

    def __enter__(self):
        for _ in range(600):
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        self.__exit__()
        pytest.fail(f"{self.name} does not listen: {self.output.read_text()}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, 15)
        self.process.wait(30)

    def effects(self, word=""):
        """Returns the number of jobs whose body contains the word."""
        with closing(sqlite3.connect(self.database, timeout=10)) as db:
            table = TABLE.get(self.name, "jobs")
            return db.execute(f"SELECT count(*) FROM {table} WHERE body LIKE ?", [f"%{word}%"]).fetchone()[0]


def free_port():
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def go_environment(source, folder):
    if (GO_MODULES / "src/github.com/mattn/go-sqlite3").exists():
        return {"GO111MODULE": "off", "GOPATH": str(GO_MODULES), "GOFLAGS": "-tags=libsqlite3"}
    # Go writes a new go.sum next to this copy.
    shutil.copy(source / "go.mod", folder / "go.mod")
    return {"GOFLAGS": f"-mod=mod -modfile={folder}/go.mod"}
