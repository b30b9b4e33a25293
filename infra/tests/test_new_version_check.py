"""The check of a new version of the catcher lets CodeDeploy go on only if the catcher answers 404 for an unknown source."""

import io
import json
import sys
import types
from pathlib import Path

import pytest
from samcli.yamlhelper import yaml_parse

TEMPLATE = yaml_parse((Path(__file__).parents[2] / "template.yaml").read_text())
CHECK = TEMPLATE["Resources"]["NewVersionCheck"]["Properties"]
HOOK = {"DeploymentId": "d-1", "LifecycleEventHookExecutionId": "hook-1"}


def run(monkeypatch, answer, error=None):
    """Runs the code of the function as Lambda does. Returns the request to the catcher, and the status for CodeDeploy."""
    said = {}

    class Lambda:
        def invoke(self, FunctionName, Payload):
            said["invoked"] = (FunctionName, json.loads(Payload))
            return {"Payload": io.BytesIO(json.dumps(answer).encode())} | ({"FunctionError": error} if error else {})

    class CodeDeploy:
        def put_lifecycle_event_hook_execution_status(self, deploymentId, lifecycleEventHookExecutionId, status):
            said["status"] = (deploymentId, lifecycleEventHookExecutionId, status)

    client = {"lambda": Lambda, "codedeploy": CodeDeploy}
    monkeypatch.setitem(sys.modules, "boto3", types.SimpleNamespace(client=lambda name: client[name]()))
    monkeypatch.setenv("NEW_VERSION", "arn:version")
    names = {}
    exec(CHECK["Code"]["ZipFile"], names)
    names["handler"](HOOK, None)
    return said


def test_a_version_that_answers_404_receives_requests(monkeypatch):
    said = run(monkeypatch, {"statusCode": 404})

    assert said["status"] == ("d-1", "hook-1", "Succeeded")
    assert said["invoked"][0] == "arn:version"


@pytest.mark.parametrize("answer, error", [
    ({"errorMessage": "RequestId: 1 Error: Runtime exited", "errorType": "Runtime.ExitError"}, "Unhandled"),
    ({"statusCode": 404}, "Unhandled"),
    ({"statusCode": 500}, None),
    ({"statusCode": 200}, None),
])
def test_any_other_version_receives_none(monkeypatch, answer, error):
    assert run(monkeypatch, answer, error)["status"][2] == "Failed"


def test_the_request_is_the_event_that_a_test_posts_to_the_real_catcher(monkeypatch):
    event = json.loads((Path(__file__).parents[1] / "events/catcher-new-version-check.json").read_text())

    assert run(monkeypatch, {"statusCode": 404})["invoked"][1] == event
    assert event["pathParameters"]["source"] == "mitt-new-version-check"
