"""Plays the event API of Inngest, and a tracker that honours idempotency keys."""

import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HttpService:
    """`answer` handles a request. `after_next` is called once, after that and before the answer is sent."""

    def __init__(self):
        self.requests, self.lock, self.after_next = [], threading.Lock(), None

    def __enter__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"service": self}))
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def handled(self, path, headers, body):
        with self.lock:
            self.requests.append((path, headers, body))
            answer = self.answer(path, headers, body)
            after, self.after_next = self.after_next, None
        if after:
            after()
        return answer


class InngestApi(HttpService):
    """Drops an event with an id that it has had for less than 24 hours, and still answers 200: the duplicate is in the
    history, and starts no function. https://www.inngest.com/docs/durable-execution/guides-and-advanced/idempotency
    """

    def __init__(self, clock=time.time):
        super().__init__()
        self.clock, self.seen, self.started = clock, {}, []

    def answer(self, path, headers, body):
        key = path.removeprefix("/e/")
        if key == path or not key:
            return 404, {}, {"error": "Event key not found", "status": 404}
        events = json.loads(body)
        for event in events if isinstance(events, list) else [events]:
            if not event.get("name"):
                return 400, {}, {"error": "Event name is required", "status": 400}
            name, now = event.get("id") or str(uuid.uuid4()), self.clock()
            if now - self.seen.get(name, float("-inf")) >= 24 * 3600:
                self.seen[name] = now
                self.started.append(event)
        ids = [uuid.uuid4().hex.upper()[:26] for _ in (events if isinstance(events, list) else [events])]
        return 200, {}, {"ids": ids, "status": 200}

    def effects(self):
        return [event.get("id") for event in self.started]


class Tracker(HttpService):
    """Answers a request with a known key as the first one. `busy` requests get 429."""

    def __init__(self):
        super().__init__()
        self.tickets, self.busy = {}, 0

    def answer(self, path, headers, body):
        if self.busy:
            self.busy -= 1
            return 429, {"retry-after": "1"}, {}
        ticket = {"id": f"T-{len(self.tickets) + 1}", "title": json.loads(body)["title"]}
        return 200, {}, self.tickets.setdefault(headers["idempotency-key"], ticket)

    def effects(self):
        return list(self.tickets)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, extra, document = self.service.handled(self.path, headers, body)
        answer = json.dumps(document).encode()
        try:
            self.send_response(status)
            for name, value in {"content-length": str(len(answer)), "content-type": "application/json", **extra}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)
        except OSError:
            self.close_connection = True  # The worker was killed.

    def log_message(self, *_):
        pass
