"""Speaks the protocol of workers over HTTP, with answers that a test chooses, and records the requests."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "a/session+token==")
SIGNED = ("content-type", "host", "x-amz-date", "x-amz-security-token")


def authorization(url, headers, body, region, keys=KEYS):
    """Returns the header of a signature as botocore calculates it, for the date of the given headers."""
    request = AWSRequest("POST", url, {name: headers[name] for name in SIGNED if name in headers}, body)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = SigV4Auth(keys, "execute-api", region)
    signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    auth._inject_signature_to_request(request, signature)
    return request.headers["Authorization"]


class StandIn:
    """Hands out each of `events` once. `answers` has the answers to an operation: a status and a document each. The last
    one is repeated."""

    def __init__(self, events=(), queue="triage", **answers):
        self.events, self.queue, self.answers = list(events), queue, answers
        self.requests, self.wrong = [], []
        self.changed = threading.Condition()

    def __enter__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"stand_in": self}))
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, op, fields):
        with self.changed:
            self.requests.append((time.monotonic(), op, fields))
            self.changed.notify_all()
            answers = self.answers.get(op)
            if answers:
                status, document = answers.pop(0) if len(answers) > 1 else answers[0]
                if document is not None:
                    return status, {"v": 1, **document}
            if op != "next":
                return 200, {"v": 1, "status": "done"}
            events, self.events = self.events[: fields["max"]], self.events[fields["max"] :]
            return 200, {"v": 1, "events": events, "reason": "empty", "retry_after_ms": 200}

    def said(self, *ops):
        """Returns the requests of these operations, without their times."""
        return [(op, fields) for _, op, fields in self.requests if op in ops]

    def wait(self, op, count=1, timeout=30):
        with self.changed:
            return self.changed.wait_for(lambda: len(self.said(op)) >= count, timeout)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        expected = authorization(self.stand_in.url + self.path, headers, body, "us-east-1")
        if headers.get("authorization") != expected:
            self.stand_in.wrong.append((headers, expected))
        _, queue, op = self.path.removeprefix("/").split("/")
        assert queue == self.stand_in.queue
        status, document = self.stand_in.answer(op, json.loads(body))
        answer = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass
