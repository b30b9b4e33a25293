"""Runs a command against template.yaml, deployed into an independent emulator.

    .venv/check/bin/python infra/tests/second_opinion.py \
        --sources infra/events/sources.toml --secret github=sesame -- cargo test -p webhookctl

SAM builds the functions and deploys the template into ministack, which enforces the permissions of
the roles. The command reads the outputs of the stack from the JSON file $MITT_STACK_OUTPUTS, and
reaches the emulator through the usual AWS variables. With --no-deploy the command deploys the stack.
The script always stops all processes that it started. All services listen on the loopback interface;
logs are in .mitt/second-opinion/.
"""

import argparse
import contextlib
import fcntl
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHECK = ROOT / ".venv/check/bin"
MINISTACK = ROOT / ".venv/ministack/bin"
HOME = ROOT / ".mitt/second-opinion"
STACK = "mitt"
REGION = "us-east-1"
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Trouble(Exception):
    """A failure that the script reports as one sentence."""


def main() -> int:
    options = arguments()
    for number in ENDINGS:
        signal.signal(number, interrupted)
    try:
        with only_one_at_a_time():
            build(options)
            with emulator() as endpoint:
                aws = client_environment(endpoint)
                put_secrets(options.secret, aws)
                told = {}
                if not options.no_deploy:
                    deploy(options, aws)
                    told["MITT_STACK_OUTPUTS"] = str(describe(endpoint, aws))
                try:
                    return run_command(options, aws | told)
                finally:
                    save_function_logs(aws)
    except Trouble as trouble:
        print(f"second opinion: {trouble}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("second opinion: interrupted", file=sys.stderr)
        return 130


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs a command against the template, deployed into ministack.")
    parser.add_argument("--sources", type=Path, help="sources file of the functions (default: the built-in one)")
    parser.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="[PATH/]NAME[/SLOT]=VALUE",
        help="a secret; PATH is ingress (default), egress or provider-api; SLOT is current by default",
    )
    parser.add_argument("--build", choices=["release", "debug"], default="release", help="debug builds much faster")
    parser.add_argument("--reuse-build", action="store_true", help="deploy the last build, even if it is old")
    parser.add_argument("--no-deploy", action="store_true", help="do not deploy; the command deploys")
    parser.add_argument("--timeout", type=int, default=900, help="timeout of the command in seconds")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="after --")
    options = parser.parse_args()
    options.command = [word for word in options.command[:1] if word != "--"] + options.command[1:]
    if not options.command:
        parser.error("the command is missing; give it after --")
    if options.sources and not options.sources.is_file():
        parser.error(f"no such file: {options.sources}")
    options.secret = [parse_secret(parser, secret) for secret in options.secret]
    return options


def parse_secret(parser: argparse.ArgumentParser, text: str) -> tuple[str, str]:
    """`github=x` → (`/mitt/ingress/github/current`, `x`)."""
    name, equals, value = text.partition("=")
    words = name.split("/")
    if words[0] not in ("ingress", "egress", "provider-api"):
        words.insert(0, "ingress")
    if len(words) == 2:
        words.append("current")
    if not equals or not value or len(words) != 3 or not all(words):
        parser.error(f"invalid secret {name!r}; use [PATH/]NAME[/SLOT]=VALUE")
    return f"/{STACK}/" + "/".join(words), value


# -------------------------------------------------------------------- the emulator


@contextlib.contextmanager
def only_one_at_a_time() -> Iterator[None]:
    for tool in (CHECK / "sam", CHECK / "cargo-lambda", MINISTACK / "ministack"):
        if not tool.exists():
            raise Trouble(f"{tool.relative_to(ROOT)} is missing; `make venv` installs it")
    HOME.mkdir(parents=True, exist_ok=True)
    with open(HOME / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Trouble("another run is active in this folder") from None
        yield


@contextlib.contextmanager
def emulator() -> Iterator[str]:
    """Starts ministack, which runs until the end of the block, and returns its URL."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    scratch = HOME / "tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    # The functions inherit these variables, so they contain only what functions may see. The endpoint
    # prevents requests to the real AWS, and the empty home hides real credentials.
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        # ministack enforces the policies of the roles. Only the access key `test` may do everything.
        "AUTH": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    say(f"ministack at {endpoint}")
    with open(HOME / "ministack.log", "w") as log:
        process = subprocess.Popen(
            [MINISTACK / "python", ROOT / "infra/tests/ministack_server.py"],
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until_healthy(process, endpoint)
        yield endpoint
    finally:
        with undisturbed():
            stop(process)
            shutil.rmtree(scratch, ignore_errors=True)


def wait_until_healthy(process: subprocess.Popen, endpoint: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Trouble(f"ministack did not start\n{tail(HOME / 'ministack.log')}")
        with contextlib.suppress(OSError, urllib.error.URLError):
            if direct.open(f"{endpoint}/_ministack/health", timeout=2).status == 200:
                return
        time.sleep(0.1)
    raise Trouble(f"ministack was not ready within a minute\n{tail(HOME / 'ministack.log')}")


# Sends requests without any proxy of the machine.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def client_environment(endpoint: str) -> dict[str, str]:
    """Returns the environment of a client of the emulator, without any setting that points to the real AWS."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return inherited | {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "SAM_CLI_TELEMETRY": "0",
    }


# -------------------------------------------------------------------- the stack


def build(options: argparse.Namespace) -> None:
    built = HOME / "build"
    if options.reuse_build and (built / "template.yaml").exists():
        return say("sam build: skipped")
    environment = os.environ | {
        # cargo-lambda runs zig with the first python3 on PATH.
        "PATH": f"{CHECK}{os.pathsep}{os.environ['PATH']}",
        "SAM_CLI_TELEMETRY": "0",
    }
    if options.build == "debug":
        environment["SAM_BUILD_MODE"] = "debug"
    # Without --cached, with which SAM can miss a change in `shared` and deploy an outdated binary.
    command = [CHECK / "sam", "build", "--template", ROOT / "template.yaml", "--build-dir", built]
    command += ["--region", REGION, "--parameter-overrides", f"Architecture={architecture()}"]
    step("sam build", command, environment, timeout=3600)


def put_secrets(secrets: list[tuple[str, str]], aws: dict[str, str]) -> None:
    with clients(aws) as client:
        for path, value in secrets:
            client("ssm").put_parameter(Name=path, Value=value, Type="SecureString", Overwrite=True)


def deploy(options: argparse.Namespace, aws: dict[str, str]) -> None:
    parameters = {
        "Architecture": architecture(),
        "SourcesFile": str(options.sources.resolve()) if options.sources else "",
        "DeletionProtection": "false",
        "LogLevel": "DEBUG",
    }
    command = [CHECK / "sam", "deploy", "--template-file", HOME / "build/template.yaml"]
    command += ["--stack-name", STACK, "--region", REGION, "--resolve-s3", "--no-progressbar"]
    command += ["--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-fail-on-empty-changeset"]
    command += ["--parameter-overrides", *(f'{name}="{value}"' for name, value in parameters.items() if value)]
    step("sam deploy", command, aws, timeout=300)


def describe(endpoint: str, aws: dict[str, str], name: str = STACK) -> Path:
    """Writes the outputs of the stack to a file."""
    with clients(aws) as client:
        (stack,) = client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    if stack["StackStatus"] not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
        raise Trouble(f"the stack is {stack['StackStatus']}\n{tail(HOME / 'ministack.log')}")
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
    # The output ApiUrl needs a DNS entry; this URL does not.
    outputs["ApiUrl"] = f"{endpoint}/_aws/execute-api/{outputs['ApiId']}/$default"
    outputs["StackName"] = name
    path = HOME / "outputs.json"
    path.write_text(json.dumps(outputs, indent=2) + "\n")
    return path


def run_command(options: argparse.Namespace, environment: dict[str, str]) -> int:
    say(" ".join(options.command))
    try:
        process = subprocess.Popen(
            options.command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        raise Trouble(f"{options.command[0]} cannot be run: {error.strerror}") from None
    try:
        return process.wait(options.timeout)
    except subprocess.TimeoutExpired:
        raise Trouble(f"the command did not end within {options.timeout} s") from None
    finally:
        with undisturbed():
            stop(process)


def save_function_logs(aws: dict[str, str]) -> None:
    """Saves the logs of the functions, because the emulator loses them when it stops."""
    with contextlib.suppress(Exception), clients(aws) as client:
        logs = client("logs")
        for group in logs.describe_log_groups()["logGroups"]:
            pages = logs.get_paginator("filter_log_events").paginate(logGroupName=group["logGroupName"])
            lines = [event["message"].rstrip() for page in pages for event in page["events"]]
            (HOME / (group["logGroupName"].split("/")[-1] + ".log")).write_text("\n".join(lines) + "\n")


@contextlib.contextmanager
def clients(aws: dict[str, str]) -> Iterator:
    """Returns boto3 clients of the emulator."""
    import boto3  # Only the venv has boto3, and this script has checked that the venv exists.
    from botocore.exceptions import BotoCoreError, ClientError

    session = boto3.Session(aws["AWS_ACCESS_KEY_ID"], aws["AWS_SECRET_ACCESS_KEY"], region_name=REGION)
    try:
        yield lambda service: session.client(service, endpoint_url=aws["AWS_ENDPOINT_URL"])
    except (BotoCoreError, ClientError) as error:
        raise Trouble(f"{error}\n{tail(HOME / 'ministack.log')}") from None


def architecture() -> str:
    return "arm64" if platform.machine() in ("arm64", "aarch64") else "x86_64"


# -------------------------------------------------------------------- processes


def step(name: str, command: list, environment: dict[str, str], timeout: int) -> None:
    """Runs one program until it ends, and writes its output to a log file."""
    path = HOME / f"{name.replace(' ', '-')}.log"
    started = time.monotonic()
    with open(path, "w") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        raise Trouble(f"{name} did not end within {timeout} s\n{tail(path)}") from None
    finally:
        with undisturbed():
            stop(process)
    if code != 0:
        raise Trouble(f"{name} failed\n{tail(path)}")
    say(f"{name}: {time.monotonic() - started:.0f} s")


def stop(process: subprocess.Popen) -> None:
    """Stops a process and all its descendants, including those that left its process group."""
    family = {process.pid} | descendants(process.pid)
    for number, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 5)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        for pid in family & set(parents()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        deadline = time.monotonic() + patience
        while family & set(parents()) and time.monotonic() < deadline:
            time.sleep(0.1)
            process.poll()
    process.wait()


def descendants(pid: int) -> set[int]:
    family, found = parents(), {pid}
    while more := {child for child, parent in family.items() if parent in found} - found:
        found |= more
    return found - {pid}


def parents() -> dict[int, int]:
    """Returns every running process and its parent, without zombies."""
    if Path("/proc/self/stat").exists():
        rows = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                # pid (name, which may contain any character) state parent ...
                state, parent = path.read_text(errors="replace").rpartition(")")[2].split()[:2]
                rows.append((path.parent.name, parent, state))
    else:
        command = ["ps", "-A", "-o", "pid=,ppid=,stat="]
        rows = [line.split() for line in subprocess.check_output(command, text=True).splitlines()]
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ignores signals, so that a second Ctrl-C does not leave processes running."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tail(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return "\n".join(["", *(f"    {line}" for line in lines[-25:]), f"    (full log: {path.relative_to(ROOT)})"])


def say(text: str) -> None:
    print(f"second opinion: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
