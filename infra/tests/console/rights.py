"""The policy `viewer` is enough for every page: the calls of the console go through a gate that denies all other actions."""

import contextlib
import http.server
import json
import re
import shutil
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

WRITES = re.compile(r":(Put|Update|Delete|Send|Receive|Write|Create|TransactWrite|BatchWrite|Invoke)")
NEVER = b"attribute_exists(pk) AND attribute_not_exists(pk)"
POLICY = Path(__file__).parents[2] / "policies/viewer.json"
SERVICES = {"dynamodb": "dynamodb", "sqs": "sqs", "ssm": "ssm", "secrets_manager": "secretsmanager", "s3": "s3", "lambda": "lambda"}
# S3 and Lambda have no target header.
OTHERS = {"s3": "s3:GetObject", "lambda": "lambda:GetFunctionConfiguration"}


def allowed():
    found = set()
    for statement in json.loads(POLICY.read_text())["Statement"]:
        actions = statement["Action"]
        found |= {actions} if isinstance(actions, str) else set(actions)
    return found


class Gate:
    """A proxy in front of a service, which denies what the policy does not allow."""

    def __init__(self, name, url, may, seen):
        service = SERVICES[name]

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                target = self.headers.get("x-amz-target")
                action = f"{service}:{target.rsplit('.', 1)[1]}" if target else OTHERS.get(service, f"{service}:{self.command}")
                # `doctor` asks whether it could write with an update whose condition never holds.
                seen.append("probe" if NEVER in body else action)
                if action not in may:
                    error = {"__type": "AccessDeniedException", "message": f"User: arn:aws:iam::000000000000:user/viewer is not authorized to perform: {action}"}
                    return self.answer(400 if target else 403, {"content-type": "application/x-amz-json-1.0"}, json.dumps(error).encode())
                headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "accept-encoding", "transfer-encoding")}
                request = urllib.request.Request(url + self.path, data=body if self.command != "GET" else None, headers=headers, method=self.command)
                try:
                    with urllib.request.urlopen(request, timeout=30) as answer:
                        self.answer(answer.status, dict(answer.headers), answer.read())
                except urllib.error.HTTPError as error:
                    self.answer(error.code, dict(error.headers), error.read())

            def answer(self, code, headers, body):
                self.send_response(code)
                for name, value in headers.items():
                    if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                        self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                # The console drops a connection when its caller goes.
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_one

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture(scope="module")
def viewer(stack, cli, tmp_path_factory, console_at):
    """A console whose calls the policy judges, and the actions that it called."""
    folder = tmp_path_factory.mktemp("viewer")
    shutil.copytree(Path(cli.folder) / ".mitt", folder / ".mitt")
    file = folder / ".mitt/local.json"
    facts = json.loads(file.read_text())
    seen, gates = [], []
    for name in SERVICES:
        gate = Gate(name, facts[name], allowed(), seen)
        gates.append(gate)
        text = json.dumps(facts).replace(facts[name], gate.url)
        facts = json.loads(text)
    file.write_text(json.dumps(facts))
    with console_at(folder) as (base, session):
        yield base, session, seen
    for gate in gates:
        gate.server.shutdown()


def test_every_page_loads_under_the_policy_viewer_and_writes_nothing(chromium, viewer, pages, tab_of):
    base, session, seen = viewer
    look = tab_of(base, session)
    denied, writes, reads = {}, set(), set()
    for name, where in pages.items():
        seen.clear()
        look.open(where)
        writes |= {(name, action) for action in seen if WRITES.search(action)}
        reads |= set(seen)
        assert look.page.locator("h1").inner_text(), name
        for text in look.page.locator(".failure").all_inner_texts():
            denied[name] = text
            assert re.search(r"[a-z0-9]+:[A-Z]\w+", text), f"{name}: a denied panel does not name its action: {text}"
        look.blameless()
    assert set(denied) <= {"sources", "doctor", "overview", "source"}, denied
    assert "dynamodb:Query" in reads
    assert not writes, writes


def test_the_gate_denies_what_the_policy_does_not_allow(chromium, viewer, tab_of, pages):
    base, session, seen = viewer
    look = tab_of(base, session)
    look.open(pages["event"])
    look.page.get_by_role("button", name="Verify it step by step").click()
    look.page.locator(".failure").wait_for()
    assert re.search(r"ssm:\w+|secret", look.page.locator(".failure").inner_text())
    assert look.page.get_by_text("The signature covers the whole body").count()
