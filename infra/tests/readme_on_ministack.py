"""Runs every command of the first section of infra/docs/deploy.md. README shows a part of that section.

    .venv/check/bin/python infra/tests/readme_on_ministack.py

The script runs every command of the section in order on ministack, both from code blocks and from
sentences. It uses a folder that looks like a fresh checkout, and the build of second_opinion.py. The
script fails if a command ends with an unexpected exit code. The tables below list every command that the
script skips or changes; an entry that is not in the page is also a failure.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from second_opinion import CHECK, HOME, REGION, ROOT, architecture, clients, describe

PAGE = ROOT / "infra/docs/deploy.md"
SECTION = "## Deploy to your account"
FOLDER = HOME / "reader"
LOG = HOME / "readme.log"

# Commands that the script skips, with the reason.
NOT_HERE = {
    'export PATH="$PWD/target/first:$PATH"': "this script has the CLI on its PATH",
    "make venv": "the tools are installed, because they run this script",
    "sam build": "second_opinion.py has just run it for this machine; a second run takes minutes",
    "webhookctl doctor --end-to-end": "it posts to the public URL, which has no DNS entry and no TLS here",
    "make cost": "it runs for minutes, and deploys nothing",
}

# Example values in the page, which the script replaces. The URL is known after the deployment.
EXAMPLE_REGION = "eu-west-1"
EXAMPLE_API = "https://abc123.execute-api.eu-west-1.amazonaws.com"

# Answers to the questions of `sam deploy --guided`. To any other question, the script answers with Return.
ANSWERS = {
    "Stack Name": "mitt",
    "AWS Region": REGION,
    "Parameter Architecture": architecture(),
    # The file that the earlier commands have edited. On AWS, the functions contain this file.
    "Parameter SourcesFile": str(FOLDER / "infra/sources.toml"),
    "Save arguments to configuration file": "n",
}

# Text that the output of a command must contain.
SHOWS = {
    "webhookctl inbox list": "github-org",
    "webhookctl doctor": "You may read everything that doctor checks",
}

# Commands whose expected exit code is not 0.
ENDS_WITH = {
    # The doctor finds faults: most sources have no secret, and ministack does not report everything of a table.
    "webhookctl doctor": 5,
}

# Matches a question at the end of the current output, such as `<tab>Stack Name [sam-app]: `.
QUESTION = re.compile(r"[\t\n]([^\t\n\[]+) \[[^\t\n]*\]: \Z")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Astray(Exception):
    """A fault of the page, as one sentence."""


def main() -> int:
    if "AWS_ENDPOINT_URL" not in os.environ:
        return on_ministack()
    try:
        follow(commands(PAGE.read_text()))
    except Astray as astray:
        print(f"{PAGE.name}: {astray}", file=sys.stderr)
        return 1
    return 0


def on_ministack() -> int:
    """Runs this script again with an emulator that has no stack yet."""
    again = [sys.executable, str(ROOT / "infra/tests/second_opinion.py"), "--reuse-build", "--no-deploy", "--timeout", "300"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.run([*again, "--", sys.executable, __file__], env=environment, cwd=ROOT).returncode


def commands(page: str) -> list[str]:
    """Returns the commands of the section before its first subsection."""
    if SECTION not in page:
        raise Astray(f"no section {SECTION!r}")
    section = re.split(r"^##", page.split(SECTION)[1], flags=re.MULTILINE)[0]
    found = []
    for block, inline in re.findall(r"^```sh\n(.*?)^```$|(?<!`)`([^`]+)`(?!`)", section, re.MULTILINE | re.DOTALL):
        lines = block.replace("\\\n", " ").splitlines() if block else [inline] if is_command(inline) else []
        found += [" ".join(part.split()) for line in lines for part in uncommented(line).split("&&") if part.strip()]
    return found


def is_command(inline: str) -> bool:
    return re.match(r"(sam|cargo|make|aws|webhookctl) ", inline) is not None


def uncommented(line: str) -> str:
    return re.sub(r"(^|\s)#\s.*", "", line)


def follow(found: list[str]) -> None:
    if unknown := sorted((NOT_HERE.keys() | SHOWS.keys() | ENDS_WITH.keys()) - set(found)):
        raise Astray(f"the page no longer says {', '.join(unknown)}; remove it from readme_on_ministack.py")
    settle_in()
    LOG.write_text("")
    for command in found:
        if reason := NOT_HERE.get(command):
            say(f"skipped: {command}: {reason}")
            continue
        say(command)
        code, said = run(here(command))
        if code != ENDS_WITH.get(command, 0):
            raise Astray(f"{command!r} ends with {code}\n{said[-3000:]}")
        if SHOWS.get(command, "") not in said:
            raise Astray(f"{command!r} does not show {SHOWS[command]}\n{said[-3000:]}")


def settle_in() -> None:
    """Creates the folder of a reader: the repository, the two secrets, and the output of `sam build`."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "infra").mkdir(parents=True)
    (FOLDER / ".aws-sam").mkdir()
    (FOLDER / ".aws-sam/build").symlink_to(HOME / "build")
    (FOLDER / "template.yaml").symlink_to(ROOT / "template.yaml")
    shutil.copy(ROOT / "infra/sources.toml", FOLDER / "infra")
    for name in ("secret", "api-key"):
        (FOLDER / name).write_text(secrets.token_hex(20))


def here(command: str) -> list[str]:
    """Returns the words of a command, with the Region and the URL of this deployment."""
    if EXAMPLE_API in command:
        outputs = json.loads(describe(os.environ["AWS_ENDPOINT_URL"], os.environ).read_text())
        command = command.replace(EXAMPLE_API, shlex.quote(outputs["ApiUrl"]))
    return [word.replace(EXAMPLE_REGION, REGION) for word in shlex.split(command)]


def run(words: list[str]) -> tuple[int, str]:
    if words[0] == "aws":
        return aws(words[1:])
    environment = os.environ | {
        "PATH": os.pathsep.join([str(CHECK), str(ROOT / "target/debug"), os.environ["PATH"]]),
        "WEBHOOKCTL_CONFIG": str(FOLDER / "contexts.toml"),
    }
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        process = subprocess.Popen(words, cwd=FOLDER, env=environment, **streams)
    except OSError as error:
        raise Astray(f"{words[0]} cannot be run: {error.strerror}") from None
    said = ""
    with LOG.open("a") as log:
        while chunk := process.stdout.read1():
            log.write(chunk.decode(errors="replace"))
            said += COLOUR.sub("", chunk.decode(errors="replace"))
            if question := QUESTION.search(said):
                process.stdin.write(f"{ANSWERS.get(question[1], '')}\n".encode())
                process.stdin.flush()
    process.stdin.close()
    return process.wait(), said


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


def say(text: str) -> None:
    print(f"{PAGE.name}: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
