"""Runs the functions as `sam local` and `cargo lambda watch` run them, with the services of `webhookctl dev`.

    .venv/check/bin/python infra/tests/sam_local.py

The script needs no Docker. SAM's own code finds the functions and the routes in the template, resolves the
environment of each function, and serves the HTTP API. Only the container is missing: instead, the script starts
the binary of `make test-build` with exactly the environment that the container gets. `cargo lambda watch` runs as
usual, but a program named `cargo` before the real one on PATH starts the existing binary instead of building it
(--build builds it). With a Docker engine, the script also runs `sam build` and `sam local invoke`.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import logging
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path

from readme_on_ministack import commands
from second_opinion import CHECK, HOME, ROOT, architecture, direct, free_port

PAGE = ROOT / "infra/docs/local.md"
SECTION = "## sam local and cargo lambda watch"
EVENTS = ROOT / "infra/events"
BINARIES = ROOT / "target/debug"
SAM_ENV = ".mitt/sam-env.json"
LAMBDA_ENV = ".mitt/lambda.env"
# The binary of each function.
FUNCTIONS = {"Catcher": "catcher", "Processor": "processor", "BackupSync": "backup-sync"}
# The secret that signs the sample events, as infra/events/README.md says.
DEMO_SECRET = re.search(r"test secret `([^`]+)`", (EVENTS / "README.md").read_text())[1]
# A source that the embedded file does not have, with a destination on this machine. A container can know it only
# from the table.
OWN_SOURCE = """
[[source]]
name = "only-in-dev"
preset = "github"
[[source.action]]
kind = "http"
url = "http://127.0.0.1:{port}/hooks"
sign = "none"
"""


class Astray(Exception):
    """A difference between the page and what happens, as one sentence."""


def main() -> int:
    try:
        with tempfile.TemporaryDirectory(prefix="mitt-sam-local-") as folder, Destination() as destination:
            follow(Path(folder), destination)
    except Astray as astray:
        print(f"sam_local.py: {astray}", file=sys.stderr)
        return 1
    return 0


def follow(folder: Path, destination: Destination) -> None:
    check_page(page_commands())
    without_the_file()
    sources = (ROOT / "infra/sources.toml").read_text() + OWN_SOURCE.format(port=destination.port)
    (folder / "sources.toml").write_text(sources.replace("[forward]", "[forward]\nallow_loopback = true"))
    with Dev(folder, "--sources", "sources.toml") as dev:
        dev.put_demo_secrets()
        samples_in_sam(dev)
        start_api_in_sam(dev, destination)
        with watch(dev):
            samples_in_cargo_lambda(dev)
        docker(dev)
    left = [name for name in (SAM_ENV, LAMBDA_ENV) if (folder / name).exists()]
    if left:
        raise Astray(f"dev has left {left} behind")
    without_the_catcher(folder)
    without_the_processor(folder, destination)


def page_commands() -> list[str]:
    """Returns the commands in the code blocks of the section. The sentences contain only names of commands."""
    return commands(re.sub(r"(?<!`)`[^`\n]+`(?!`)", "", PAGE.read_text()), SECTION)


def check_page(found: list[str]) -> None:
    """Compares the commands of the page with those that this script runs or replaces."""
    if found != PAGE_COMMANDS:
        raise Astray(f"{PAGE.name} has the commands\n  " + "\n  ".join(found))


# The commands of the page in their order. This script runs them on other ports, and without a container.
PAGE_COMMANDS = [
    "webhookctl dev",
    f"export SECRET={DEMO_SECRET}",
    "webhookctl secrets put github-main --from env:SECRET",
    f"cargo lambda watch --env-file {LAMBDA_ENV}",
    "cargo lambda invoke catcher --data-file infra/events/catcher-github.json",
    "sam build --parameter-overrides Architecture=x86_64",
    f"sam local start-api --parameter-overrides Architecture=x86_64 --docker-network host --env-vars {SAM_ENV}",
    "curl -i -X POST localhost:3000/in/github-main -d '{}'",
    "webhookctl send github --to http://127.0.0.1:3000/in/github-main --secret-from env:SECRET",
    "sam local invoke Catcher --parameter-overrides Architecture=x86_64 --docker-network host"
    f" --env-vars {SAM_ENV} -e infra/events/catcher-github.json",
    "webhookctl dev --without catcher",
    "webhookctl dev --without processor --invoke-port 3001",
    f"sam local start-lambda --parameter-overrides Architecture=x86_64 --docker-network host --env-vars {SAM_ENV}",
]


# -------------------------------------------------------------------- dev and the destination


class Dev:
    """A running `webhookctl dev`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.command = [BINARIES / "webhookctl", "dev", "--port", "0", "--no-input", "-o", "jsonl", *arguments]

    def __enter__(self) -> Dev:
        self.process = subprocess.Popen(
            self.command, cwd=self.folder, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        if '"ready"' not in line:
            raise Astray(f"dev does not start: {line}")
        self.url = json.loads(line)["url"]
        # A full pipe would block dev.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.local = json.loads((self.folder / ".mitt/local.json").read_text())
        return self

    def __exit__(self, *_) -> None:
        self.process.terminate()
        self.process.wait(30)

    def webhookctl(self, *arguments: str) -> str:
        command = [BINARIES / "webhookctl", *arguments]
        environment = clean_environment() | {"SECRET": DEMO_SECRET}
        ended = subprocess.run(
            command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120,
        )
        if ended.returncode:
            raise Astray(f"webhookctl {shlex.join(arguments)} ends with {ended.returncode}: {ended.stdout}{ended.stderr}")
        return ended.stdout

    def put_demo_secrets(self) -> None:
        for name in ("github-main", "only-in-dev"):
            self.webhookctl("secrets", "put", name, "--from", "env:SECRET")
        for name in ("stripe-main", "slack-main", "fireflies-main", "standard-main"):
            body = {"Name": f"/mitt/ingress/{name}/demo", "Value": DEMO_SECRET, "Type": "SecureString"}
            post(self.local["ssm"], body, {"x-amz-target": "AmazonSSM.PutParameter"})

    def wait_until_done(self, source: str) -> None:
        """Waits until every event of the source is done."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            items = json.loads(self.webhookctl("inbox", "list", "-s", source, "-o", "json"))["items"]
            if items and all(item["status"] == "done" for item in items):
                return
            time.sleep(0.5)
        raise Astray(f"not all events of {source} are done: {items}")


class Destination:
    """A program on this machine that receives events."""

    def __enter__(self) -> Destination:
        received = self.received = queue.Queue()

        class Handler(Quiet):
            def do_POST(self) -> None:
                received.put(self.path)
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.answer(200)

        self.server = serve(Handler)
        self.port = self.server.server_port
        return self

    def __exit__(self, *_) -> None:
        self.server.shutdown()


def clean_environment() -> dict[str, str]:
    """Returns the environment without settings of AWS, of Mitt and of proxies."""
    kept = ("AWS_", "MITT_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {name: value for name, value in os.environ.items() if not name.upper().startswith(kept)}


def post(url: str, body, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"} | (headers or {}))
    try:
        with direct.open(request, timeout=600) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


# -------------------------------------------------------------------- the Runtime API


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in ({"content-length": str(len(body))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_) -> None:
        """A killed function closes its connection, which is no error of this script."""


def serve(handler: type) -> Server:
    server = Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Function:
    """A process of a function with exactly one environment, and the Runtime API that serves it.

    https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
    """

    def __init__(self, binary: str, environment: dict[str, str]) -> None:
        self.binary, self.environment = binary, environment
        self.turn = threading.Lock()

    def __enter__(self) -> Function:
        events, answers = self.events, self.answers = queue.Queue(), queue.Queue()

        class Handler(Quiet):
            def do_GET(self) -> None:
                event = events.get()
                headers = {
                    "lambda-runtime-aws-request-id": str(uuid.uuid4()),
                    "lambda-runtime-deadline-ms": str(int(time.time() * 1000) + 60_000),
                    "lambda-runtime-invoked-function-arn": "arn:aws:lambda:us-east-1:000000000000:function:f",
                }
                self.answer(200, event, headers)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                answers.put((self.path.rsplit("/", 1)[1], body))
                self.answer(202)

        self.server = serve(Handler)
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [BINARIES / self.binary],
            env=self.environment | {"AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self.server.server_port}"},
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
        )
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.wait(30)
        self.server.shutdown()
        self.log.close()

    def logged(self) -> str:
        self.log.seek(0)
        return self.log.read()

    def invoke(self, event: bytes) -> bytes:
        """Runs the function once, and returns its response or its error."""
        with self.turn:
            self.events.put(event)
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                with contextlib.suppress(queue.Empty):
                    return self.answers.get(timeout=0.2)[1]
                if self.process.poll() is not None:
                    break
            raise Astray(f"{self.binary} gives no answer:\n{self.logged()}")


# -------------------------------------------------------------------- SAM


@functools.cache
def stacks() -> list:
    from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider

    parameters = {"Architecture": architecture()}
    return SamLocalStackProvider.get_stacks(str(ROOT / "template.yaml"), parameter_overrides=parameters)[0]


def sam_environment(function: str, values: dict | None) -> dict[str, str]:
    """Returns the environment that SAM gives to the container of a function. `values` is the content of --env-vars."""
    from samcli.commands.local.lib.local_lambda import LocalLambdaRunner
    from samcli.lib.providers.sam_function_provider import SamFunctionProvider

    functions = SamFunctionProvider(stacks())
    runner = LocalLambdaRunner(
        local_runtime=None, function_provider=functions, cwd=str(ROOT), real_path=str(ROOT), env_vars_values=values,
    )
    return runner._make_env_vars(functions.get(function)).resolve()


def routes() -> list:
    """Returns the routes of the HTTP API that `sam local start-api` serves."""
    from samcli.lib.providers.api_provider import ApiProvider

    return ApiProvider(stacks(), cwd=str(ROOT)).api.routes


def written(dev: Dev) -> dict:
    return json.loads((dev.folder / SAM_ENV).read_text())


def without_the_file() -> None:
    """Without --env-vars, each function ends, and says which file is missing."""
    for function, binary in FUNCTIONS.items():
        with Function(binary, sam_environment(function, None)) as process:
            code = process.process.wait(60)
            if code == 0 or SAM_ENV not in process.logged():
                raise Astray(f"{binary} without --env-vars ends with {code}: {process.logged()}")
    say("without the file, each function names it")


def samples() -> dict[str, list[str]]:
    """Returns the cells of each sample in the tables of infra/events/README.md."""
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", (EVENTS / "README.md").read_text(), re.MULTILINE)
    found = {name: [cell.strip("` ") for cell in cells.split(" | ")] for name, cells in rows}
    if len(found) != len(list(EVENTS.glob("*.json"))):
        raise Astray("infra/events/README.md does not list every sample")
    return found


def check_samples(function: str, binary: str, invoke) -> None:
    """Invokes the function with each of its samples. The answers are those of infra/events/README.md."""
    seen = 0
    for name, cells in samples().items():
        if not name.startswith(f"{binary}-"):
            continue
        seen += 1
        for _ in range(5):
            answer = json.loads(invoke((EVENTS / name).read_bytes()))
            # On a busy machine, a call to a service can time out. A provider then delivers again.
            if answer.get("statusCode") != 503:
                break
        if function == "Catcher":
            right = str(answer["statusCode"]) == cells[0]
        elif function == "Processor":
            right = answer == json.loads(cells[0])
        elif name == "backup-sync-sync.json":
            # The README names this error: there is no API key of the source.
            right = 'API key "stripe-main" not found' in answer["errorMessage"]
        else:
            task = name.removeprefix("backup-sync-").removesuffix(".json")
            right = cells[0] == "a report" and answer.get("task") == task
        if not right:
            raise Astray(f"{function} answers {name} with {answer}, not with {cells[0]}")
    if not seen:
        raise Astray(f"there is no sample for {function}")
    say(f"{function}: {seen} samples")


def samples_in_sam(dev: Dev) -> None:
    if set(written(dev)) != set(FUNCTIONS) | {"LongProcessor"}:
        raise Astray(f"{SAM_ENV} has the functions {sorted(written(dev))}")
    for function, binary in FUNCTIONS.items():
        environment = sam_environment(function, written(dev))
        with Function(binary, environment) as process:
            check_samples(function, binary, process.invoke)
            if '"ERROR"' in process.logged() and binary == "catcher":
                raise Astray(f"{binary} logs an error:\n{process.logged()}")


class Runner:
    """Invokes the functions for SAM's HTTP API, in place of the containers."""

    def __init__(self, catcher: Function) -> None:
        self.catcher = catcher

    def is_debugging(self) -> bool:
        return False

    def invoke(self, name: str, event: str, stdout, **_) -> None:
        if name.rsplit("/", 1)[-1] != "Catcher":
            raise Astray(f"SAM invokes {name} for a request")
        stdout.write_str(self.catcher.invoke(event.encode()).decode())


def start_api_in_sam(dev: Dev, destination: Destination) -> None:
    """Serves the API with SAM's own server. The processor of dev runs the actions."""
    from samcli.lib.providers.api_provider import ApiProvider
    from samcli.local.apigw.local_apigw_service import LocalApigwService
    from werkzeug.serving import make_server

    with Function("catcher", sam_environment("Catcher", written(dev))) as catcher:
        api = ApiProvider(stacks(), cwd=str(ROOT)).api
        service = LocalApigwService(api, Runner(catcher), None, 0, "127.0.0.1", None)
        service.create()
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        # `service.run` would also handle the signals of this script.
        server = make_server("127.0.0.1", 0, service._app, threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        status, _ = post(f"{url}/in/github-main", b"{}")
        if status != 401:
            raise Astray(f"a request without a signature gets {status}, not 401")
        for source in ("github-main", "only-in-dev"):
            dev.webhookctl("send", "github", "--to", f"{url}/in/{source}", "--secret-from", "env:SECRET")
            dev.wait_until_done(source)
        server.shutdown()
    if destination.received.qsize() != 1:
        raise Astray(f"the destination received {destination.received.qsize()} requests, not 1")
    say("start-api: 401 without a signature, 200 with one, and the processor of dev calls the destination")


def wait_for(port: int) -> None:
    import socket

    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise Astray(f"no program listens on port {port}")


# -------------------------------------------------------------------- cargo lambda


CARGO = f"""#!{sys.executable}
import os, sys
arguments = sys.argv[1:]
if arguments[:1] == ["run"]:
    name = arguments[arguments.index("--bin") + 1]
    os.execv(os.path.join({str(BINARIES)!r}, name), [name])
os.execv({shutil.which("cargo")!r}, ["cargo", *arguments])
"""


@contextlib.contextmanager
def watch(dev: Dev, port: int | None = None):
    """Runs `cargo lambda watch` until the end of the block. `dev.invoke_port` is its port."""
    dev.invoke_port = port or free_port()
    environment = clean_environment() | {"CARGO_TARGET_DIR": str(ROOT / "target")}
    environment["PATH"] = f"{CHECK}{os.pathsep}{environment['PATH']}"
    if "--build" not in sys.argv:
        bin = dev.folder / "bin"
        bin.mkdir(exist_ok=True)
        (bin / "cargo").write_text(CARGO)
        (bin / "cargo").chmod(0o755)
        environment["PATH"] = f"{bin}{os.pathsep}{environment['PATH']}"
    command = shlex.split(f"cargo-lambda lambda watch --env-file {dev.folder / LAMBDA_ENV}")
    command += ["--invoke-address", "127.0.0.1", "--invoke-port", str(dev.invoke_port), "--ignore-changes"]
    log = dev.folder / "watch.log"
    with open(log, "w") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )
        try:
            wait_for(dev.invoke_port)
            yield
        except Astray as astray:
            raise Astray(f"{astray}\n{log.read_text()[-3000:]}") from None
        finally:
            process.terminate()
            process.wait(60)


def samples_in_cargo_lambda(dev: Dev) -> None:
    for function, binary in FUNCTIONS.items():
        url = f"http://127.0.0.1:{dev.invoke_port}/2015-03-31/functions/{binary}/invocations"
        check_samples(function, binary, lambda event, url=url: post(url, event)[1])
    command = shlex.split("cargo-lambda lambda invoke catcher --data-file infra/events/catcher-github.json")
    command += ["--invoke-address", "127.0.0.1", "--invoke-port", str(dev.invoke_port)]
    environment = clean_environment() | {"PATH": f"{CHECK}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    if ended.returncode or json.loads(ended.stdout)["statusCode"] != 200:
        raise Astray(f"cargo lambda invoke: {ended.stdout}{ended.stderr}")
    say("cargo lambda watch and cargo lambda invoke: 200")


def without_the_catcher(folder: Path) -> None:
    """`dev --without catcher` sends the requests to the other tool, and fails them while the tool does not run."""
    port = free_port()
    with Dev(folder, "--sources", "sources.toml", "--without", "catcher", "--invoke-port", str(port)) as dev:
        status, _ = post(f"{dev.url}/in/github-main", b"{}")
        if status < 500:
            raise Astray(f"without the other tool, dev answers {status}")
        with watch(dev, port):
            dev.webhookctl("send", "github-main")
            dev.wait_until_done("github-main")
            if "catcher" not in (folder / "watch.log").read_text():
                raise Astray("cargo lambda watch did not run the catcher")
    say("dev --without catcher: the other tool runs the catcher")


def without_the_processor(folder: Path, destination: Destination) -> None:
    """`dev --without processor` sends the messages to `sam local start-lambda`, which knows functions by logical id.

    The processor reads the sources from the table, and calls a destination on this machine.
    """
    processors = []

    class Handler(Quiet):
        def do_POST(self) -> None:
            event = self.rfile.read(int(self.headers["content-length"]))
            if self.path != "/2015-03-31/functions/Processor/invocations":
                return self.answer(404)
            self.answer(200, processors[0].invoke(event))

    server = serve(Handler)
    options = ["--without", "processor", "--invoke-port", str(server.server_port)]
    before = destination.received.qsize()
    with Dev(folder, "--sources", "sources.toml", *options) as dev:
        with Function("processor", sam_environment("Processor", written(dev))) as processor:
            processors.append(processor)
            dev.webhookctl("send", "only-in-dev")
            dev.wait_until_done("only-in-dev")
    server.shutdown()
    if destination.received.qsize() != before + 1:
        raise Astray("the processor in the other tool did not call the destination")
    say("dev --without processor: the other tool knows the sources of the table, and calls the destination")


# -------------------------------------------------------------------- Docker


def docker(dev: Dev) -> None:
    """Runs `sam local invoke`, and before it `sam build` if necessary, if a Docker engine answers."""
    program = shutil.which("docker")
    if not program or subprocess.run([program, "info"], capture_output=True, timeout=60).returncode:
        return say("no Docker engine: the container is not tested")
    environment = clean_environment() | {"PATH": f"{CHECK}{os.pathsep}{os.environ['PATH']}", "SAM_CLI_TELEMETRY": "0"}
    parameters = ["--parameter-overrides", f"Architecture={architecture()}"]
    # second_opinion.py has usually built the functions for this machine.
    built = HOME / "build"
    build = [CHECK / "sam", "build", "--build-dir", built, *parameters]
    local = ["--docker-network", "host", "--env-vars", dev.folder / SAM_ENV, "-e", EVENTS / "catcher-github.json"]
    invoke = [CHECK / "sam", "local", "invoke", "Catcher", "-t", built / "template.yaml", *parameters, *local]
    for command in [invoke] if (built / "template.yaml").exists() else [build, invoke]:
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=3600)
        if ended.returncode:
            raise Astray(f"{command[1]} ends with {ended.returncode}\n{ended.stdout}{ended.stderr[-3000:]}")
    if json.loads(ended.stdout.strip().splitlines()[-1])["statusCode"] != 200:
        raise Astray(f"sam local invoke: {ended.stdout}")
    say("sam local invoke in a container: 200")


def say(text: str) -> None:
    print(f"sam_local.py: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
