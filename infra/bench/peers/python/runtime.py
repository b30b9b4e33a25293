"""Requests events from the Runtime API, as Lambda's own client does, but with less work."""

import json
import os
from http.client import HTTPConnection

from catcher import handler

api = HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])


def ask(method, path, body=None):
    api.request(method, f"/2018-06-01/runtime/{path}", body)
    answer = api.getresponse()
    return answer.headers, answer.read()


while True:
    headers, event = ask("GET", "invocation/next")
    reply = json.dumps(handler(json.loads(event)))
    ask("POST", f"invocation/{headers['lambda-runtime-aws-request-id']}/response", reply)
