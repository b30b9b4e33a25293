"""The gate lets the template pass and refuses it with any of these faults planted."""

import pytest

import template_gate

# (what is broken, text of the template, what it becomes, what the gate says about it)
FAULTS = [
    ("a runtime that does not exist", "provided.al2023", "provided.al2077", "provided.al2077"),
    ("a batch larger than Lambda takes", "BatchSize: 10", "BatchSize: 99999", "BatchSize"),
    ("a queue that is not there", "!GetAtt Doorbell.Arn", "!GetAtt Dorbell.Arn", "Dorbell"),
    ("an attribute that a queue lacks", "!GetAtt DeadDoorbells.Arn", "!GetAtt DeadDoorbells.Url", "Url"),
    ("a table that is not there", "MITT_TABLE: !Ref Inbox", "MITT_TABLE: !Ref Outbox", "Outbox"),
    ("messages that return while at work", "VisibilityTimeout: 360", "VisibilityTimeout: 59", "isibilityTimeout"),
    ("a misspelt property", "SqsManagedSseEnabled", "SqsManagedSSEEnabled", "SqsManagedSSEEnabled"),
    ("a misspelt action", "ssm:GetParametersByPath", "ssm:GetParameterByPath", "getparameterbypath"),
    ("a circle", "      Handler: bootstrap\n", "      Handler: bootstrap\n      Description: !Ref CatcherIntegration\n", "ircular"),
    ("a role that is not named", "Role: !GetAtt CatcherRole.Arn", "Role: !GetAtt CatcherRule.Arn", "CatcherRule"),
    ("a parameter that nobody uses", "Parameters:\n", "Parameters:\n  Spare: { Type: String }\n", "Spare"),
]


def test_the_template_can_be_deployed():
    assert template_gate.complaints(template_gate.TEMPLATE) == []


@pytest.mark.parametrize("text, fault, complaint", [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_the_gate_refuses(tmp_path, text, fault, complaint):
    sound = template_gate.TEMPLATE.read_text()
    assert text in sound, "the fault can no longer be planted, move it"
    broken = tmp_path / "template.yaml"
    broken.write_text(sound.replace(text, fault, 1))

    found = template_gate.expanded_lint(broken)

    assert any(complaint in line for line in found), found


def test_the_gate_asks_sam_itself(tmp_path):
    broken = tmp_path / "template.yaml"
    broken.write_text(template_gate.TEMPLATE.read_text().replace("Timeout: 60", "TimeOut: 60", 1))

    assert "TimeOut" in " ".join(template_gate.sam_validate(broken))
