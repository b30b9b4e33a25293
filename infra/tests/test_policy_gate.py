"""The gate accepts our policies, and rejects permissions that do not exist, match nothing or are too wide."""

import json

import pytest

import policy_gate
from policy_gate import POLICIES, TEMPLATE, complaints, of_template
from template_gate import expand

# (name of the fault, text of the template, its replacement, the rule that the gate must report)
# Workers and approvers have no managed policy in the stack, because each queue and each source has its own.
PEOPLE = [file for file in POLICIES if file.stem not in ("worker", "approver")]

FAULTS = [
    ("every action", "Action: [dynamodb:GetItem, dynamodb:PutItem]", "Action: dynamodb:*", "WIDE_ACTION"),
    ("actions by their beginning", "Action: ssm:PutParameter", "Action: ssm:Put*", "WIDE_ACTION"),
    ("every resource", "Resource: !Sub ${Bodies.Arn}/*", "Resource: '*'", "RESOURCE_STAR"),
    ("a misspelt condition key", "dynamodb:Attributes: [pk", "dynamodb:Attribute: [pk", "UNKNOWN_CONDITION_FOR_ACTION"),
    ("a resource of another kind", "Resource: !GetAtt SpillQueue.Arn", "Resource: !GetAtt Bodies.Arn", "RESOURCE_MISMATCH"),
    ("a bucket for its objects", "Action: s3:ListBucket\n", "Action: s3:GetObject\n", "RESOURCE_MISMATCH"),
]


def test_our_policies_have_no_finding_that_nobody_accepted():
    assert complaints(TEMPLATE, POLICIES) == []


@pytest.mark.parametrize("text, fault, complaint", [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_the_gate_refuses_in_the_template(tmp_path, text, fault, complaint):
    sound = TEMPLATE.read_text()
    assert text in sound, "the template no longer contains this text; update FAULTS"
    broken = tmp_path / "template.yaml"
    broken.write_text(sound.replace(text, fault, 1))

    found = complaints(broken, POLICIES)

    assert any(complaint in line for line in found), found


@pytest.mark.parametrize("change, complaint", [
    ({"Action": "dynamodb:*"}, "WIDE_ACTION"),
    ({"NotAction": "dynamodb:DeleteTable"}, "NEGATION"),
    ({"Resource": "*"}, "RESOURCE_STAR"),
    ({"Condition": {"ForAllValues:StringLike": {"dynamodb:LeadingKey": ["E#*"]}}}, "UNKNOWN_CONDITION_FOR_ACTION"),
    ({"Action": "dynamodb:FetchItem"}, "UNKNOWN_ACTION"),
])
def test_the_gate_refuses_in_a_policy_for_people(tmp_path, change, complaint):
    policy = json.loads((POLICIES[0].parent / "viewer.json").read_text())
    policy["Statement"][0] |= change
    if "NotAction" in change:
        del policy["Statement"][0]["Action"]
    broken = tmp_path / "viewer.json"
    broken.write_text(json.dumps(policy))

    found = complaints(TEMPLATE, [broken])

    assert any(line.startswith("viewer") and complaint in line for line in found), found


def test_every_policy_is_read_as_it_is_deployed():
    roles = {name for name, part in expand(TEMPLATE)["Resources"].items() if part["Type"] == "AWS::IAM::Role"}
    read = of_template(TEMPLATE)

    people = {name.split("@")[0] for name in read if name.split("@")[0].endswith("Policy")}
    assert {name.split("-")[0] for name in read if "-" in name.split("@")[0]} == roles
    assert len(people) == len(PEOPLE)
    assert "KeepHandshakeSecret" not in json.dumps(read["CatcherRole-catcher@the defaults"])
    assert "KeepHandshakeSecret" in json.dumps(read["CatcherRole-catcher@everything"])
    assert len(POLICIES) >= 4


@pytest.mark.parametrize("file", PEOPLE, ids=lambda file: file.stem)
def test_a_managed_policy_allows_what_its_file_allows(file):
    # The resource of the template for each name of the file. The set "everything" has another table.
    names = {
        "Table": "mitt-restored", "BodyBucket": "bodies", "Queue": "workqueue", "WorkDeadLettersQueue": "workdeadletters",
        "OpsDeadLettersQueue": "opsdeadletters", "CatcherFunction": "catcher", "ProcessorFunction": "processor",
        "LongProcessorFunction": "longprocessor", "BackupSyncFunction": "backupsync", "SecretsManagerPrefix": "prod/webhooks",
    }
    text = file.read_text()
    for name, value in names.items():
        text = text.replace(f"${{{name}}}", value)
    resource = "".join(word.capitalize() for word in file.stem.split("-")) + "Policy"
    deployed = of_template(TEMPLATE)[f"{resource}@everything"]

    assert list(map(even, deployed["Statement"])) == list(map(even, json.loads(policy_gate.filled(text, {}))["Statement"]))
    assert f"{resource}@the defaults" not in of_template(TEMPLATE)


def even(statement):
    """Writes one value and a list of one value in the same way, and booleans as IAM does."""
    text = json.dumps({name: value if isinstance(value, (list, dict)) else [value] for name, value in statement.items()}, sort_keys=True)
    return text.replace('"false"', "false")


def test_nothing_is_left_to_be_put_in():
    for name, policy in of_template(TEMPLATE).items():
        assert "${" not in json.dumps(policy) and "Fn::" not in json.dumps(policy), name


def test_what_cannot_be_read_is_named():
    with pytest.raises(policy_gate.Unknown, match="Api.*AWS::ApiGatewayV2::Api"):
        policy_gate.arn("Api", expand(TEMPLATE))


def test_a_writer_of_secrets_neither_reads_nor_deletes_one():
    writer, admin = (json.loads((POLICIES[0].parent / f"{name}.json").read_text())["Statement"] for name in ("secret-writer", "secret-admin"))
    [statement] = writer

    assert statement["Action"] == "ssm:PutParameter"
    # The same paths as for an administrator: webhooks, destinations and the providers' APIs.
    assert all(statement["Resource"] == other["Resource"] for other in admin)


@pytest.mark.parametrize("name", ["viewer", "operator", "body-reader"])
def test_policies_that_are_not_for_secrets_read_none(name):
    policy = json.loads((POLICIES[0].parent / f"{name}.json").read_text())
    for statement in policy["Statement"]:
        # The parameter with the names of the resources is outside the paths of the secrets.
        if statement["Resource"] == "arn:${Partition}:ssm:${Region}:${Account}:parameter${SecretsPath}/names":
            continue
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        assert not [a for a in actions if a.startswith(("secretsmanager:Get", "ssm:Get", "kms:Decrypt"))], statement["Sid"]


def test_an_approver_may_decide_about_holds_of_one_source_and_nothing_else():
    [statement] = json.loads((POLICIES[0].parent / "approver.json").read_text())["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Allow", "execute-api:Invoke")
    source = "arn:${Partition}:execute-api:${Region}:${Account}:${ApiId}/*/POST/work/${HeldSource}"
    assert statement["Resource"] == [f"{source}/approve", f"{source}/reject"]


def test_a_worker_may_call_five_operations_of_one_queue_and_nothing_else():
    [statement] = json.loads((POLICIES[0].parent / "worker.json").read_text())["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Allow", "execute-api:Invoke")
    queue = "arn:${Partition}:execute-api:${Region}:${Account}:${ApiId}/*/POST/work/${PullQueue}"
    operations = ("next", "extend", "begin", "end", "finish")
    assert statement["Resource"] == [f"{queue}/{op}" for op in operations]
