"""Follows pages that lead to a deployment, as a reader does. README shows a part of the first one.

    .venv/check/bin/python infra/tests/readme_on_ministack.py [JOURNEY …]

The script runs every command of a page in order on ministack, both from code blocks and from sentences. It
uses a folder that looks like a fresh checkout, and the build of second_opinion.py. The script fails if a
command ends with an unexpected exit code. Each journey lists every command that the script skips or changes;
an entry that is not in the page is also a failure.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from second_opinion import CHECK, HOME, REGION, ROOT, architecture, clients, describe

sys.path.insert(0, str(ROOT / "infra"))
import package
import package_files

FOLDER = HOME / "reader"
LOG = HOME / "readme.log"

# Example values in the pages, which the script replaces. The URL is known after the deployment.
EXAMPLE_REGION = "eu-west-1"
EXAMPLE_API = "https://abc123.execute-api.eu-west-1.amazonaws.com"
EXAMPLE_PORT = ":3000"
EXAMPLE_TEMPLATE = "template-arm64.yaml"

ARCHITECTURE = architecture()


@dataclass
class Journey:
    """A page, or one of its sections, and what differs here from what a reader does."""

    page: Path
    section: str | None = None
    # Commands that the script skips, with the reason.
    skipped: dict[str, str] = field(default_factory=dict)
    # Text that the script adds to a command.
    added: dict[str, str] = field(default_factory=dict)
    # Answers to questions of `sam deploy`. To any other question, the script answers with Return.
    answers: dict[str, str] = field(default_factory=dict)
    # Text that the output of a command must contain.
    shows: dict[str, str] = field(default_factory=dict)
    # Commands whose expected exit code is not 0.
    ends_with: dict[str, int] = field(default_factory=dict)
    # Whether the reader has a release instead of the repository.
    released: bool = False

    def commands(self) -> list[str]:
        return commands(self.page.read_text(), self.section)

    def named(self) -> set[str]:
        """Returns the commands that an entry names."""
        return self.skipped.keys() | self.added.keys() | self.shows.keys() | self.ends_with.keys()


DEPLOY = Journey(
    ROOT / "infra/docs/deploy.md",
    "## Deploy to your account",
    skipped={
        'export PATH="$PWD/target/first:$PATH"': "this script has the CLI on its PATH",
        "make venv": "the tools are installed, because they run this script",
        "sam build": "second_opinion.py has just run it for this machine; a second run takes minutes",
        "webhookctl doctor --end-to-end": "it posts to the public URL, which has no DNS entry and no TLS here",
        "make cost": "it runs for minutes, and deploys nothing",
    },
    answers={
        "Stack Name": "mitt",
        "AWS Region": REGION,
        "Parameter Architecture": ARCHITECTURE,
        # The file that the earlier commands have edited. On AWS, the functions contain this file.
        "Parameter SourcesFile": str(FOLDER / "infra/sources.toml"),
        "Save arguments to configuration file": "n",
    },
    shows={
        "webhookctl inbox list": "github-org",
        "webhookctl doctor": "You may read everything that doctor checks",
    },
    # The doctor finds faults: most sources have no secret, and ministack does not report everything of a table.
    ends_with={"webhookctl doctor": 5},
)

DEPLOY_BUILT = (
    "sam deploy --stack-name mitt --capabilities CAPABILITY_IAM --resolve-s3 --confirm-changeset"
    " --parameter-overrides Sources=table AllowedHosts=app.example.com"
)
DEPLOY_RELEASED = (
    f"sam deploy --template-file {EXAMPLE_TEMPLATE} --stack-name mitt --capabilities CAPABILITY_IAM --resolve-s3"
    " --parameter-overrides Sources=table AllowedHosts=app.example.com"
)
# ministack takes any architecture, and runs the function on this machine.
HERE = f" Architecture={ARCHITECTURE}"


def first_source(released: bool) -> Journey:
    other_way = "this journey uses the other way"
    skipped = {
        "make run": "`make test` runs it, and this script has the CLI on its PATH",
        'export PATH="$PWD/target/first:$PATH"': "this script has the CLI on its PATH",
        "sam build": other_way if released else "second_opinion.py has just run it for this machine",
        (DEPLOY_BUILT if released else DEPLOY_RELEASED): other_way,
        "webhookctl inbox inspect ID": "there is an id only if an event is not done",
        "sam delete --stack-name mitt": "the emulator ends with the stack",
    }
    return Journey(
        ROOT / "infra/docs/first-source.md",
        skipped=skipped,
        added={} if released else {DEPLOY_BUILT: HERE},
        answers={"Deploy this changeset?": "y"},
        shows={
            "webhookctl send stripe-main --wait": "done",
            "webhookctl secrets list -c prod": "stripe-main",
            "webhookctl inbox list -c prod": "stripe-main",
        },
        # ministack does not report everything of a table.
        ends_with={"webhookctl doctor -c prod": 5},
        released=released,
    )


JOURNEYS = {"deploy": DEPLOY, "first-source": first_source(released=False), "release": first_source(released=True)}

# Matches a question at the end of the current output, such as `<tab>Stack Name [sam-app]: `.
QUESTION = re.compile(r"[\t\n]([^\t\n\[]+) \[[^\t\n]*\]: \Z")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Astray(Exception):
    """A fault of the page, as one sentence."""


def main() -> int:
    if "AWS_ENDPOINT_URL" not in os.environ:
        return max(on_ministack(name) for name in sys.argv[1:] or JOURNEYS)
    (name,) = sys.argv[1:]
    journey = JOURNEYS[name]
    try:
        Reader(journey).follow()
    except Astray as astray:
        print(f"{journey.page.name}: {astray}", file=sys.stderr)
        return 1
    return 0


def on_ministack(name: str) -> int:
    """Runs this script again with an emulator that has no stack yet."""
    again = [sys.executable, str(ROOT / "infra/tests/second_opinion.py"), "--reuse-build", "--no-deploy", "--timeout", "300"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.run([*again, "--", sys.executable, __file__, name], env=environment, cwd=ROOT).returncode


def commands(page: str, section: str | None = None) -> list[str]:
    """Returns the commands of the section before its first subsection, or of the whole page."""
    if section:
        if section not in page:
            raise Astray(f"no section {section!r}")
        page = re.split(r"^##", page.split(section)[1], flags=re.MULTILINE)[0]
    found = []
    for block, inline in re.findall(r"^```sh\n(.*?)^```$|(?<!`)`([^`]+)`(?!`)", page, re.MULTILINE | re.DOTALL):
        lines = block.replace("\\\n", " ").splitlines() if block else [inline] if is_command(inline) else []
        for line in lines:
            parts = [" ".join(part.split()) for part in uncommented(line).split("&&") if part.strip()]
            # A sentence can name a command that a block has shown.
            found += [part for part in parts if block or part not in found]
    return found


def is_command(inline: str) -> bool:
    return re.match(r"(sam|cargo|make|aws|webhookctl) ", inline) is not None


def uncommented(line: str) -> str:
    return re.sub(r"(^|\s)#\s.*", "", line)


class Reader:
    """A reader who follows a page, with a shell that keeps its folder and its variables."""

    def __init__(self, journey: Journey) -> None:
        self.journey = journey
        self.shell = FOLDER / "shell"
        # The variables of AWS are set from the first deployment on: `dev` needs no account.
        self.deployed = False
        self.dev: subprocess.Popen | None = None

    def follow(self) -> None:
        journey, found = self.journey, self.journey.commands()
        if unknown := sorted(journey.named() - set(found)):
            raise Astray(f"the page no longer says {', '.join(unknown)}; remove it from readme_on_ministack.py")
        self.settle_in()
        LOG.write_text("")
        with receiver() as (port, received):
            try:
                for command in found:
                    self.step(command, port)
            finally:
                self.stop_dev()
        local = any(command.startswith("webhookctl dev") for command in found)
        if local and received[:1] != ["/stripe/webhook"]:
            raise Astray(f"the program of the reader received {received}")

    def step(self, command: str, port: int) -> None:
        journey = self.journey
        if reason := journey.skipped.get(command):
            return self.say(f"skipped: {command}: {reason}")
        self.say(command)
        if command.startswith("sam deploy"):
            self.stop_dev()
            self.deployed = True
            if not journey.section:
                self.enter(FOLDER / "release" if journey.released else FOLDER)
        changed = self.here(command, port) + journey.added.get(command, "")
        if command.startswith("webhookctl dev"):
            return self.start_dev(changed)
        code, said = aws(shlex.split(changed)[1:]) if command.startswith("aws ") else self.run(changed)
        if code != journey.ends_with.get(command, 0):
            raise Astray(f"{command!r} ends with {code}\n{said[-3000:]}")
        if journey.shows.get(command, "") not in said:
            raise Astray(f"{command!r} does not show {journey.shows[command]}\n{said[-3000:]}")
        if command.startswith("sam deploy") and not journey.section:
            self.enter(FOLDER.parent / "inbox")

    def settle_in(self) -> None:
        """Creates the folder of a reader: the repository or a release, and the files with secrets."""
        inbox = FOLDER.parent / "inbox"
        for folder in (FOLDER, inbox):
            shutil.rmtree(folder, ignore_errors=True)
        (FOLDER / "infra").mkdir(parents=True)
        (FOLDER / ".aws-sam").mkdir()
        (FOLDER / ".aws-sam/build").symlink_to(HOME / "build")
        (FOLDER / "template.yaml").symlink_to(ROOT / "template.yaml")
        shutil.copy(ROOT / "infra/sources.toml", FOLDER / "infra")
        for name in ("secret", "api-key"):
            (FOLDER / name).write_text(secrets.token_hex(20))
        if self.journey.released:
            unpack_release(FOLDER / "release")
        self.shell.mkdir()
        (self.shell / "variables").write_text("")
        self.enter(FOLDER)

    def enter(self, folder: Path) -> None:
        (self.shell / "folder").write_text(str(folder))
        if folder.name == "inbox":
            for name in ("whsec_of_stripe", "whsec_of_your_service"):
                key = subprocess.run(["openssl", "rand", "-base64", "24"], capture_output=True, text=True, check=True)
                (folder / name).write_text(f"whsec_{key.stdout}")

    def here(self, command: str, port: int) -> str:
        """Returns a command with the Region, the URL and the architecture of this deployment."""
        if EXAMPLE_API in command:
            outputs = json.loads(describe(os.environ["AWS_ENDPOINT_URL"], os.environ).read_text())
            path = "/in/" + command.split(f"{EXAMPLE_API}/in/")[1].split()[0]
            command = command.replace(EXAMPLE_API + path, shlex.quote(outputs["ApiUrl"] + path))
        command = command.replace(EXAMPLE_TEMPLATE, f"template-{ARCHITECTURE}.yaml")
        return command.replace(EXAMPLE_REGION, REGION).replace(EXAMPLE_PORT, f":{port}")

    def environment(self) -> dict[str, str]:
        variables = {name: value for name, value in os.environ.items() if self.deployed or not name.startswith("AWS_")}
        return variables | {
            "PATH": os.pathsep.join([str(CHECK), str(ROOT / "target/debug"), os.environ["PATH"]]),
            "WEBHOOKCTL_CONFIG": str(FOLDER / "contexts.toml"),
        }

    def script(self, command: str) -> list[str]:
        """Returns the words that run a command in a shell, with the folder and the variables of the command before."""
        shell = shlex.quote(str(self.shell))
        lines = [
            f"cd \"$(cat {shell}/folder)\"; . {shell}/variables",
            command,
            f"code=$?; pwd > {shell}/folder; export -p | grep ' SECRET=' > {shell}/variables; exit $code",
        ]
        return ["bash", "-c", "\n".join(lines)]

    def run(self, command: str) -> tuple[int, str]:
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(self.script(command), env=self.environment(), **streams)
        said = ""
        with LOG.open("a") as log:
            while chunk := process.stdout.read1():
                log.write(chunk.decode(errors="replace"))
                said += COLOUR.sub("", chunk.decode(errors="replace"))
                if question := QUESTION.search(said):
                    process.stdin.write(f"{self.journey.answers.get(question[1], '')}\n".encode())
                    process.stdin.flush()
        process.stdin.close()
        return process.wait(), said

    def start_dev(self, command: str) -> None:
        folder = Path((self.shell / "folder").read_text().strip())
        log = LOG.open("a")
        self.dev = subprocess.Popen(
            shlex.split(f"{command} --port 0"),
            cwd=folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + 60
        while not (folder / ".mitt/local.json").exists():
            if self.dev.poll() is not None or time.monotonic() > deadline:
                raise Astray(f"{command!r} does not start; see {LOG}")
            time.sleep(0.1)

    def stop_dev(self) -> None:
        if self.dev:
            self.dev.terminate()
            self.dev.wait()
            self.dev = None

    def say(self, text: str) -> None:
        print(f"{self.journey.page.name}: {text}", file=sys.stderr, flush=True)


def unpack_release(folder: Path) -> None:
    """Creates what a release has for this architecture, from the build of second_opinion.py."""
    folder.mkdir()
    template = (ROOT / "template.yaml").read_text()
    (folder / f"template-{ARCHITECTURE}.yaml").write_text(package.prebuilt(template, ARCHITECTURE))
    for function, binary in (("Catcher", "catcher"), ("Processor", "processor"), ("BackupSync", "backup-sync")):
        bootstrap = (HOME / "build" / function / "bootstrap").read_bytes()
        package_files.write_zip(folder / f"{binary}-{ARCHITECTURE}.zip", {"bootstrap": (bootstrap, 0o755)})


@contextlib.contextmanager
def receiver() -> Iterator[tuple[int, list[str]]]:
    """Runs the program of the reader. Returns its port, and the paths of the requests that it has received."""
    received = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            received.append(self.path)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port, received
    finally:
        server.shutdown()


def aws(words: list[str]) -> tuple[int, str]:
    """Makes the call of the AWS CLI with boto3, because the AWS CLI is not installed."""
    service, operation, *options = words
    given = {}
    for name, value in zip(options[::2], options[1::2], strict=True):
        if value.startswith("file://"):
            value = (FOLDER / value.removeprefix("file://")).read_text()
        given["".join(word.capitalize() for word in name.removeprefix("--").split("-"))] = value
    with clients(os.environ) as client:
        getattr(client(service), operation.replace("-", "_"))(**given)
    return 0, ""


if __name__ == "__main__":
    sys.exit(main())
