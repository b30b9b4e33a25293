"""The first section of infra/docs/deploy.md, followed to the letter. README shows a part of it.

    .venv/check/bin/python infra/tests/readme_on_ministack.py

Every command that the section shows, in a block or in a sentence, is run in its order on ministack,
in a folder that looks like a fresh checkout, with what second_opinion.py has built. A command with
another exit code than expected fails it. The tables below list every command that is not run here, or
not as written; an entry that is not in the page fails it as well.
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
SECTION = "## Put it in your account"
FOLDER = HOME / "reader"
LOG = HOME / "readme.log"

# What cannot be run here, or is no part of the way, and why.
NOT_HERE = {
    'export PATH="$PWD/target/first:$PATH"': "what runs this has the CLI on its PATH",
    "make venv": "it has installed the tools that run this",
    "sam build": "second_opinion.py has just run it, for this machine; once more takes minutes",
    "webhookctl doctor --end-to-end": "it posts to the public URL, whose name is in no DNS and which speaks no TLS here",
    "make cost": "it counts for minutes, and deploys nothing",
}

# The examples of the page, and what they are here. The address is known when it is deployed.
EXAMPLE_REGION = "eu-west-1"
EXAMPLE_API = "https://abc123.execute-api.eu-west-1.amazonaws.com"

# What `sam deploy --guided` is answered; to all else the answer is Return.
ANSWERS = {
    "Stack Name": "mitt",
    "AWS Region": REGION,
    "Parameter Architecture": architecture(),
    # As the commands before have left it. On AWS it is built in.
    "Parameter SourcesFile": str(FOLDER / "infra/sources.toml"),
    "Save arguments to configuration file": "n",
}

# What has to be in what a command prints.
SHOWS = {
    "webhookctl inbox list": "github-org",
    "webhookctl doctor": "You may read everything that is looked at here",
}

# What ends with another code than 0.
ENDS_WITH = {
    # It finds faults: most sources have no secret, and ministack does not tell all of a table.
    "webhookctl doctor": 5,
}

# A question ends the output for now: `<tab>Stack Name [sam-app]: `.
QUESTION = re.compile(r"[\t\n]([^\t\n\[]+) \[[^\t\n]*\]: \Z")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Astray(Exception):
    """Where the page leads astray, in a sentence."""


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
    """Comes back here with an emulator that has no stack yet."""
    again = [sys.executable, str(ROOT / "infra/tests/second_opinion.py"), "--reuse-build", "--no-deploy", "--timeout", "300"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.run([*again, "--", sys.executable, __file__], env=environment, cwd=ROOT).returncode


def commands(page: str) -> list[str]:
    """The commands of the section up to its first part, each by itself."""
    if SECTION not in page:
        raise Astray(f"there is no section {SECTION!r}")
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
        raise Astray(f"it no longer says {', '.join(unknown)}; readme_on_ministack.py still does")
    settle_in()
    LOG.write_text("")
    for command in found:
        if reason := NOT_HERE.get(command):
            say(f"not here: {command}: {reason}")
            continue
        say(command)
        code, said = run(here(command))
        if code != ENDS_WITH.get(command, 0):
            raise Astray(f"{command!r} ends with {code}\n{said[-3000:]}")
        if SHOWS.get(command, "") not in said:
            raise Astray(f"{command!r} does not show {SHOWS[command]}\n{said[-3000:]}")


def settle_in() -> None:
    """What a reader has: the repository, the two secrets, and what `sam build` left."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "infra").mkdir(parents=True)
    (FOLDER / ".aws-sam").mkdir()
    (FOLDER / ".aws-sam/build").symlink_to(HOME / "build")
    (FOLDER / "template.yaml").symlink_to(ROOT / "template.yaml")
    shutil.copy(ROOT / "infra/sources.toml", FOLDER / "infra")
    for name in ("secret", "api-key"):
        (FOLDER / name).write_text(secrets.token_hex(20))


def here(command: str) -> list[str]:
    """The words of a command, with the names of this place."""
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
    """The call that the AWS CLI makes. It is not among the tools; what it is made of is."""
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
