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

import jmespath
from botocore import xform_name
from botocore.model import Shape
from second_opinion import CHECK, HOME, REGION, ROOT, STACK, architecture, clients, describe

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
# Names of resources, which the script replaces by the outputs of the first deployment.
EXAMPLE_NAMES = {
    "mitt-Inbox-1ABC": "TableName",
    "mitt-bodies-1abc": "BodyBucket",
    "https://sqs.eu-west-1.amazonaws.com/111122223333/mitt-SpillQueue-1ABC": "SpillQueueUrl",
}

ARCHITECTURE = architecture()


@dataclass
class Journey:
    """A page, or one of its sections, and what differs here from what a reader does."""

    page: Path
    section: str | None = None
    stack: str = STACK
    # Commands that the script runs before those of the page.
    before: tuple[str, ...] = ()
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
    stack="mitt-dev",
    skipped={
        'export PATH="$PWD/target/first:$PATH"': "this script has the CLI on its PATH",
        "make venv": "the tools are installed, because they run this script",
        "sam build": "second_opinion.py has just run it for this machine; a second run takes minutes",
        "webhookctl doctor --end-to-end": "it posts to the public URL, which has no DNS entry and no TLS here",
        "make cost": "it runs for minutes, and deploys nothing",
    },
    # SourcesFile is the file that the earlier commands have edited. On AWS, the functions contain this file.
    added={
        "sam deploy --config-file infra/samconfig.toml": f" --parameter-overrides Architecture={ARCHITECTURE}"
        f" SourcesFile={FOLDER / 'infra/sources.toml'} AlarmProfile=minimal"
    },
    answers={"Deploy this changeset?": "y"},
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


# A stack with one event, as a reader of the pages about the life of a stack has it.
RUNNING = (
    "webhookctl sources add github-org --preset github --no-secret",
    f"sam deploy --stack-name mitt --capabilities CAPABILITY_IAM --resolve-s3 --parameter-overrides"
    f" Architecture={ARCHITECTURE} SourcesFile={FOLDER / 'infra/sources.toml'} DeletionProtection=true",
    "aws ssm put-parameter --type SecureString --name /mitt/ingress/github-org/current --value file://secret",
    "webhookctl context add prod --stack mitt --region eu-west-1 --sources infra/sources.toml",
    f"webhookctl send github --to {EXAMPLE_API}/in/github-org --secret-from file:secret",
)
UPGRADE = Journey(
    ROOT / "infra/docs/upgrade.md",
    before=RUNNING,
    skipped={
        "make evolution": "it runs for minutes, with the functions of two versions",
        "sam build": "second_opinion.py has just built this version; there is no other one",
        "sam deploy --config-file infra/samconfig.toml --config-env prod": "ministack has no CodeDeploy",
        f"sam deploy --template-file {EXAMPLE_TEMPLATE} --stack-name mitt --capabilities CAPABILITY_IAM --resolve-s3": "the"
        " journey `release` deploys a release",
        "git checkout v0.1.0": "there is no release",
        "webhookctl doctor --end-to-end": "it posts to the public URL, which has no DNS entry and no TLS here",
        "webhookctl sources history": "the stack has Sources=embedded",
        'webhookctl sources rollback 1 -m "the new filter was wrong"': "the stack has Sources=embedded",
    },
    shows={
        "aws ssm get-parameter --name /mitt/names --query Parameter.Value": '"version":"0.1.0"',
        "webhookctl doctor --only function": "0.1.0",
    },
    ends_with={"webhookctl doctor": 5},
)

SWITCHED = "sam deploy --stack-name mitt --capabilities CAPABILITY_IAM --resolve-s3 --parameter-overrides TableName=mitt-restored"
RECOVER = Journey(
    ROOT / "infra/docs/recover.md",
    before=RUNNING,
    skipped={
        "aws dynamodb restore-table-from-backup --target-table-name mitt-restored --backup-arn"
        " arn:aws:dynamodb:eu-west-1:111122223333:table/mitt-Inbox-1ABC/backup/01234567890123-abcdefab": "the other command"
        " restores the table",
        "sam deploy --stack-name mitt --capabilities CAPABILITY_IAM --resolve-s3 --parameter-overrides"
        " TableName=mitt-Inbox-1ABC": "it is for a stack that was deleted",
        "webhookctl sync run --lookback 24h": "no provider answers here",
    },
    shows={
        "webhookctl context add prod --refresh": "mitt-restored",
        "aws dynamodb describe-table --table-name mitt-restored --query Table.TableStatus": "ACTIVE",
        # The event of the old table.
        "webhookctl inbox list --since 1d -c old": "github-org",
        "webhookctl doctor --only table": "4 passed",
    },
)

REMOVE = Journey(
    ROOT / "infra/docs/remove.md",
    before=RUNNING,
    skipped={
        "aws cloudformation describe-stack-events --stack-name mitt --query"
        " \"StackEvents[?ResourceStatus=='CREATE_FAILED'].[LogicalResourceId,ResourceStatusReason]\"": "no deployment failed",
    },
    answers={
        f"Are you sure you want to delete the stack mitt in the region {REGION} ?": "y",
        "Are you sure you want to delete the folder mitt in S3 which contains the artifacts?": "y",
    },
)

JOURNEYS = {
    "deploy": DEPLOY,
    "first-source": first_source(released=False),
    "release": first_source(released=True),
    "upgrade": UPGRADE,
    "recover": RECOVER,
    "remove": REMOVE,
}

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
        # The outputs of the first deployment. A later one can have another table.
        self.names: dict[str, str] = {}
        self.dev: subprocess.Popen | None = None

    def follow(self) -> None:
        journey, found = self.journey, self.journey.commands()
        if unknown := sorted(journey.named() - set(found)):
            raise Astray(f"the page no longer says {', '.join(unknown)}; remove it from readme_on_ministack.py")
        self.settle_in()
        LOG.write_text("")
        with receiver() as (port, received):
            try:
                for command in [*journey.before, *found]:
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
            if not journey.section and not journey.before:
                self.enter(FOLDER / "release" if journey.released else FOLDER)
        changed = self.here(command, port) + journey.added.get(command, "")
        if command.startswith("webhookctl dev"):
            return self.start_dev(changed)
        code, said = aws(shlex.split(changed)[1:]) if command.startswith("aws ") else self.run(changed)
        if code != journey.ends_with.get(command, 0):
            raise Astray(f"{command!r} ends with {code}\n{said[-3000:]}")
        if journey.shows.get(command, "") not in said:
            raise Astray(f"{command!r} does not show {journey.shows[command]}\n{said[-3000:]}")
        if command.startswith("sam deploy") and not self.names:
            self.names = json.loads(describe(os.environ["AWS_ENDPOINT_URL"], os.environ, journey.stack).read_text())
        if command.startswith("sam deploy") and not journey.section and not journey.before:
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
        for name in ("sources.toml", "samconfig.toml"):
            shutil.copy(ROOT / "infra" / name, FOLDER / "infra")
        for name, text in re.findall(r"`(\w+\.json)` is:\n\n```json\n(.*?)^```", self.journey.page.read_text(), re.M | re.S):
            (FOLDER / name).write_text(text)
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
            path = "/in/" + command.split(f"{EXAMPLE_API}/in/")[1].split()[0]
            command = command.replace(EXAMPLE_API + path, shlex.quote(self.names["ApiUrl"] + path))
        for example, output in EXAMPLE_NAMES.items():
            if example in command:
                command = command.replace(example, self.names[output])
        # The time of the example is before the table.
        command = re.sub(r"--restore-date-time \S+", "--use-latest-restorable-time", command)
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
    with clients(os.environ) as client:
        api = client("s3" if service == "s3api" else service)
        method = operation.replace("-", "_")
        shape = api.meta.service_model.operation_model(api.meta.method_to_api_mapping[method]).input_shape
        members = {xform_name(name, "-"): (name, member) for name, member in shape.members.items()}
        given, wanted = {}, None
        while options:
            option, values = options.pop(0).removeprefix("--"), []
            while options and not options[0].startswith("--"):
                values.append(options.pop(0))
            if option == "query":
                wanted = values[0]
            elif option not in members and option.startswith("no-"):
                given[members[option.removeprefix("no-")][0]] = False
            else:
                name, member = members[option]
                given[name] = value_of(member, values)
        answer = getattr(api, method)(**given)
    answer.pop("ResponseMetadata", None)
    return 0, json.dumps(jmespath.search(wanted, answer) if wanted else answer, default=str).replace("\\", "")


def value_of(shape: Shape, values: list[str]) -> object:
    """Returns the value of an option: text, a file, a number, true, a list, or the shorthand `Name=value,Name=value`."""
    if not values:
        return True
    if shape.type_name == "list":
        return values
    [text] = values
    if text.startswith("file://"):
        text = (FOLDER / text.removeprefix("file://")).read_text()
        return json.loads(text) if shape.type_name == "structure" else text.strip()
    if shape.type_name == "structure":
        parts = dict(part.split("=", 1) for part in text.split(","))
        return {name: value_of(shape.members[name], [value]) for name, value in parts.items()}
    return {"boolean": lambda: text == "true", "integer": lambda: int(text), "long": lambda: int(text)}.get(shape.type_name, lambda: text)()


if __name__ == "__main__":
    sys.exit(main())
