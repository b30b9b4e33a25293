"""Runs every command in the shell blocks of README, the runbook and infra/docs on the local stack.

    python3 infra/tests/documented_commands.py [PAGE...]

With names of pages, such as `local.md`, the script runs only the commands of these pages. It needs the debug
build of webhookctl and of the functions.

The script starts `webhookctl dev` with the events of the demo and with the sources that the pages use. Then
it runs each command as a shell does. It replaces the example values of the pages, such as ids, ports and
contexts, with values of this stack. A command must end with exit code 0, or with the code in ENDS_WITH.

The tables below list every command that the script does not run or changes. An entry that matches no command
is a fault. The Rust test `examples` runs the console blocks, and compares their output with the page.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("MITT_BIN", ROOT / "target/debug"))
PATIENCE = 180

# Commands that the script does not run, as patterns of the beginning of a command. It runs those of webhookctl
# nevertheless: a command that succeeds does not belong in this table.
NOT_HERE = {
    r"sam |cargo lambda |gh ": "it needs an AWS account, Docker or a released version",
    r"aws ": "it needs an AWS account; a test checks its options",
    r"git checkout v": "it needs a released version",
    r"sha256sum |for zip |chmod 644 |envsubst ": "it needs the files of a released version or of a stack",
    r"tar -xzf |curl -fsSLO |sh install.sh|pip install |uvx |npm install |npx ": "test_package_cli.py runs it with built packages",
    r"cargo (binstall|build) ": "it needs a released version, or builds for minutes",
    r"curl -H .* -d @trace\.json": "it needs an OpenTelemetry collector",
    r"curl -i -X POST localhost:3000": "it needs a function in `sam local`; sam_local.py runs it",
    r"webhookctl send github --to http://127.0.0.1:3000/in/": "it needs a function in `sam local`; sam_local.py runs it",
    r"webhookctl dev (--demo )?--functions ": "it needs the zips of a released version; the Rust test `functions` runs it",
    r"webhookctl context (add|use) ": "it needs a stack in AWS; readme_on_ministack.py runs it",
    r"webhookctl send \S+ --to https://": "it needs a stack in AWS; readme_on_ministack.py runs it",
    r"webhookctl sources apply infra/": "the local stack has Sources=embedded; the Rust test `verbs` runs it",
    r"webhookctl sources promote ": "it needs the events of a trial; the Rust test `trial` runs it",
    r"webhookctl endpoint enable ": "it needs a provider that has an endpoint; the Rust test `managed` runs it",
}

# Commands whose exit code is not 0, with the reason. The pages state these codes.
ENDS_WITH = {
    "webhookctl verify <id>": (5, "the signature of the request does not match"),
    "webhookctl verify evt_01M7W7B7B0A": (5, "the signature of the request does not match"),
    "webhookctl verify --preset stripe --body body.json -H 'Stripe-Signature: t=…' --secret-from env:SECRET": (
        5,
        "the page shortens the signature",
    ),
    "webhookctl replay apply rpl_7KQ2M4": (6, "the demo's destination fails each time"),
    "webhookctl dlq redrive --error f45942 -m \"GitHub is back\"": (6, "the demo's destination fails each time"),
    "webhookctl inbox diff <id> <other>": (1, "the bodies differ"),
    "webhookctl status": (5, "events of the demo need an operator"),
    'webhookctl sources rollback 1 -m "the new filter was wrong"': (7, "the local stack has Sources=embedded"),
    "webhookctl work run --queue triage -- python3 handle.py": (3, "the sources of the pages have no queue; the Rust test `work` runs it"),
    "webhookctl sources diff infra/sources.toml": (2, "the file differs from the sources of the demo"),
}

# Commands that the script runs before a command or after it, by the beginning of the command.
BEFORE = {
    "webhookctl sources add github-org --preset github": "webhookctl sources remove github-org --confirm github-org",
}
AFTER = {"webhookctl sources add github-org": "webhookctl secrets put github-org < secret"}

# At a terminal, these commands ask for a secret. The script is not a terminal.
ASKS_FOR_SECRET = {
    "webhookctl sources add github-org --preset github": "--secret-from file:secret",
    "webhookctl sources rotate-secret stripe-main --overlap 24h": "--secret-from file:next-secret",
    "webhookctl secrets put stripe-app --egress": "< secret",
}

# Commands that remove or change what other commands need, or open the circuit breaker of the demo's destination.
# They run at the end.
LAST = r"webhookctl (dlq redrive --error |replay apply |sources remove |secrets put stripe-main .*(secret\.txt|APP_SECRET|file:key))"

# Commands that run until they are stopped. The script stops them with Ctrl-C.
FOLLOWS = re.compile(r"webhookctl (console|inbox tail|work run |listen (?!.*--until))")
FOLLOWED_FOR = 2

# Text of the pages that the script replaces: what needs a deployment, and what takes long.
SHORTER = [
    (r" (-c (prod|old)|--table NAME)\b", ""),
    (r"-n 500 --rate 20/s", "-n 20"),
    (r"(webhookctl erase --(?:where|account) .*)", r"\1 --since 1d"),
    (r"^make ", f"make -n -C {ROOT} "),
]
EVENT = r"<id>|\bevt_01\w+|\bgithub-org:8c1e77aa~5d1f03b2|\bstripe-main:evt_1PqKrs"

# Sources that the pages use, in addition to those of the demo.
SOURCES = """
[[source]]
name = "shopify-eu"
preset = "shopify"
action = [{ kind = "keep" }]

[[source]]
name = "orders"
preset = "standard-webhooks"
action = [{ kind = "keep" }]
"""

# Files that the commands read. The secret belongs to no service.
SECRET = "whsec_bWl0dC1vd24tYXBwLXNlY3JldC0yNA=="
FILES = {
    "secret": SECRET,
    "secret.txt": SECRET,
    "next-secret": "whsec_bWl0dC1uZXh0LXNlY3JldC0yNGJ5dGVz",
    "key": "rk_test_of_the_example",
    "whsec_of_stripe": SECRET,
    "whsec_of_your_service": SECRET,
    "body.json": '{"a":1}',
    "push.json": '{"ref":"refs/heads/main"}',
}


class Fault(Exception):
    """A command that does not do what its page says, as one sentence."""


@dataclass(frozen=True)
class Command:
    """A command of a page, and the line on which it begins."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"

    def not_here(self) -> str | None:
        return next((reason for pattern, reason in NOT_HERE.items() if re.match(pattern, self.text)), None)


def commands(text: str, page: str = "") -> list[Command]:
    """Returns the commands in the shell blocks of a page, in order."""
    found = []
    for block in re.finditer(r"^( *)```sh\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL):
        line = text[: block.start(2)].count("\n") + 1
        # A command continues on the lines that are indented.
        for part in re.split(rf"\n(?!{block[1]} )", block[2].rstrip("\n")):
            joined = " ".join(re.sub(r"(^|\s)#\s.*", "", part, flags=re.MULTILINE).replace("\\\n", " ").split())
            found += [Command(page, line, one) for one in joined.split(" && ") if one]
            line += part.count("\n") + 1
    return found


def documented() -> list[Command]:
    pages = [ROOT / "README.md", ROOT / "infra/runbook.md", *sorted((ROOT / "infra/docs").rglob("*.md"))]
    return [one for page in pages for one in commands(page.read_text(), str(page.relative_to(ROOT)))]


def once(found: list[Command]) -> list[Command]:
    """Returns each command once, on the first page that has it."""
    first = {one.text: one for one in reversed(found)}
    return sorted(first.values(), key=lambda one: (bool(re.match(LAST, one.text)), found.index(one)))


class Reader:
    """A folder with a running `dev`, in which the script types commands."""

    def __init__(self, folder: Path, receiver: int):
        self.folder, self.receiver = folder, receiver
        self.running: list[subprocess.Popen] = []
        (folder / "infra").mkdir(parents=True)
        (folder / "home/.zfunc").mkdir(parents=True)
        shutil.copy(ROOT / "infra/sources.toml", folder / "infra")
        self.begins_page()

    def begins_page(self) -> None:
        """Stops what the commands of the last page have started, and opens a new shell."""
        while len(self.running) > 1:
            self.stops(self.running.pop())
        self.directory = self.folder
        self.environment = {
            "HOME": str(self.folder / "home"),
            "PATH": os.pathsep.join([str(BIN), os.environ["PATH"]]),
            "USER": "alice",
            "SECRET": SECRET,
            "APP_SECRET": SECRET,
            "NO_COLOR": "1",
        }

    def starts(self, command: str, folder: Path, until: str) -> subprocess.Popen:
        """Starts a `dev`, and waits for a line with this text."""
        log = folder / "dev.log"
        process = self.popen(f"exec {command} --port 0 -o jsonl 2> {log}", folder)
        if not any(until in line.decode() for line in process.stdout):
            raise Fault(f"{command!r} ended with {process.wait()}\n{log.read_text()[-2000:]}")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        return process

    def stops(self, process: subprocess.Popen) -> int:
        """Presses Ctrl-C. For a shell, a program that SIGINT ends has exit code 130, too."""
        process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE)
        return 0 if code in (130, -signal.SIGINT) else code

    def popen(self, script: str, folder: Path) -> subprocess.Popen:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(["bash", "-c", script], cwd=folder, env=self.environment, **streams)

    def types(self, text: str) -> tuple[int, str]:
        """Runs a command. Returns its exit code and its output."""
        if text.startswith("webhookctl dev"):
            return self.types_dev(text), ""
        if FOLLOWS.match(text):
            return self.follows(text)
        for name, content in FILES.items():
            (self.directory / name).write_text(content)
        state = self.folder / "shell"
        keep = f"\nended=$?; {{ pwd; env -0; }} > {state}; exit $ended" if re.match("(export|cd) ", text) else ""
        process = self.popen(text + keep, self.directory)
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired as late:
            process.kill()
            raise Fault(f"{text!r} does not end\n{(late.output or b'').decode(errors='replace')[-3000:]}") from None
        if keep:
            folder, variables = state.read_text().split("\n", 1)
            self.directory = Path(folder)
            self.environment = dict(one.split("=", 1) for one in variables.split("\0") if "=" in one)
        return process.returncode, output.decode(errors="replace")

    def types_dev(self, text: str) -> int:
        """Runs `dev` in the folder of the page until the end of the page. Without such a folder, the
        page describes the options of `dev`: each runs for a moment, in a folder of its own."""
        if self.directory != self.folder:
            self.running.append(self.starts(text, self.directory, '"ready"'))
            return 0
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "my-sources.toml").write_text("schema = 1\n" + SOURCES)
        process = self.starts(text, folder, '"ready"')
        time.sleep(1)
        return self.stops(process)

    def follows(self, text: str) -> tuple[int, str]:
        """Runs a command for a moment, and stops it with Ctrl-C."""
        process = self.popen(f"exec {text}", self.directory)
        try:
            code = process.wait(FOLLOWED_FOR)
        except subprocess.TimeoutExpired:
            code = self.stops(process)
        return code, process.stdout.read().decode(errors="replace")

    def items(self, text: str) -> list[dict]:
        """Returns the items of a list. If there is none yet, the script waits for the first item. An error is an
        item only if one of its events can run again: an event that was replayed first has to fail again."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            code, output = self.types(f"webhookctl {text} -o json 2> /dev/null")
            if code == 0 and (items := [one for one in json.loads(output)["items"] if can_run_again(one)]):
                return items
            time.sleep(0.5)
        raise Fault(f"'{text}' shows nothing, so the command has no example")

    def here(self, text: str) -> str:
        """Returns the command with values of this stack."""
        text = f"{text} {ASKS_FOR_SECRET.get(text, '')}".strip()
        text = re.sub(r"(?<![\w.])((?:http://localhost)?):3000", rf"\1:{self.receiver}", text)
        for pattern, shorter in SHORTER:
            text = re.sub(pattern, shorter, text)
        text = text.replace("https://hooks.example.com", self.url())
        text = text.replace("<source>", "stripe-main").replace("<reason>", "a reason")
        for pattern, command, name in [
            (r"\bf45942\b|<error>", "dlq list", "error"),
            (r"\brpl_7KQ2M4\b", "replay log", "plan"),
            (r"\brec_5d1f\b", "reconcile list", "report"),
            (EVENT, self.events_for(text), "id"),
            (r"<other>", "inbox list -s stripe-main --status done", "id"),
        ]:
            if re.search(pattern, text):
                text = re.sub(pattern, self.items(command)[0][name], text)
        return text

    def url(self) -> str:
        return json.loads((self.folder / ".mitt/local.json").read_text())["url"]

    def events_for(self, text: str) -> str:
        """Returns the command that lists events for a command."""
        if text.startswith("webhookctl verify"):
            return "quarantine list --flat"
        if text.startswith("webhookctl hold"):
            return "hold list"
        return "inbox list --status quarantined" if "diff" in text or "quarantine" in text else "inbox list -s stripe-main"


@contextmanager
def reader() -> Iterator[Reader]:
    """Yields a folder with the events of the demo, and with four events whose ids are those of other events."""
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="mitt-reader-") as folder:
        reader = Reader(Path(folder) / "mitt", receiver.server_port)
        try:
            demo = reader.starts("webhookctl dev --demo --case agent --state state", reader.folder, '"event":"end"')
            reader.stops(demo)
            with (reader.folder / "state/sources.toml").open("a") as file:
                file.write(SOURCES)
            reader.running.append(reader.starts("webhookctl dev --state state", reader.folder, '"ready"'))
            for name in ("shopify-eu", "orders"):
                must(reader, f"webhookctl secrets put {name} < secret")
            for number in range(8):
                same = f"--set id=evt_same{number // 2} --set data.object.amount={number}"
                must(reader, f"webhookctl send stripe-main {same}")
            yield reader
        finally:
            for process in reversed(reader.running):
                reader.stops(process)


def can_run_again(item: dict) -> bool:
    return "error" not in item or any(item["replay"][kind] for kind in ("safe", "guarded", "unknown"))


class Receiver(http.server.BaseHTTPRequestHandler):
    """A program on this machine that accepts every request."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def must(reader: Reader, text: str, code: int = 0) -> None:
    """Runs a command. If it asks for a confirmation and there is no terminal, it names the option to add."""
    ended, output = reader.types(text)
    if ended == 7 and (confirm := re.search(r"--confirm [\w-]+", output)):
        ended, output = reader.types(f"{text} {confirm[0]}")
    if ended != code:
        raise Fault(f"{text!r} ends with {ended}, not with {code}\n{output[-3000:]}")


def follow(reader: Reader, command: Command) -> None:
    if command.not_here():
        is_dev = command.text.startswith("webhookctl dev ")
        if command.text.startswith("webhookctl ") and not is_dev and reader.types(reader.here(command.text))[0] == 0:
            raise Fault("it succeeds here, so it does not belong in NOT_HERE")
        return
    aside(reader, BEFORE, command)
    must(reader, reader.here(command.text), ENDS_WITH.get(command.text, (0, ""))[0])
    aside(reader, AFTER, command)


def aside(reader: Reader, table: dict[str, str], command: Command) -> None:
    for beginning, other in table.items():
        if command.text.startswith(beginning):
            reader.types(other)


def main(pages: list[str]) -> int:
    # A shell starts its background jobs with an ignored SIGINT, and programs inherit this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faults = ran = 0
    page = None
    began = time.monotonic()
    with reader() as someone:
        for command in once([one for one in documented() if not pages or Path(one.page).name in pages]):
            if command.page != page:
                someone.begins_page()
                page = command.page
            try:
                follow(someone, command)
                ran += not command.not_here()
            except (Fault, OSError, subprocess.SubprocessError) as fault:
                faults += 1
                print(f"{command}\n  {fault}", file=sys.stderr, flush=True)
    print(f"{ran} commands of the pages ran in {time.monotonic() - began:.0f} s, {faults} faults")
    return 1 if faults or not ran else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
