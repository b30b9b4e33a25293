"""Requests events from the Runtime API, as Lambda's own client does, but with less work.

The argument is the name of the module with the handler.
"""

import json
import os
import sys
import time
from http.client import HTTPConnection
from importlib import import_module

handler = import_module(sys.argv[1]).handler
api = HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])


class Context:
    def __init__(self, headers):
        self.aws_request_id = headers["lambda-runtime-aws-request-id"]
        self.deadline_ms = int(headers["lambda-runtime-deadline-ms"])

    def get_remaining_time_in_millis(self):
        return self.deadline_ms - int(time.time() * 1000)


def ask(method, path, body=None):
    api.request(method, f"/2018-06-01/runtime/{path}", body)
    answer = api.getresponse()
    return answer.headers, answer.read()


while True:
    headers, event = ask("GET", "invocation/next")
    context = Context(headers)
    reply = json.dumps(handler(json.loads(event), context))
    ask("POST", f"invocation/{context.aws_request_id}/response", reply)
