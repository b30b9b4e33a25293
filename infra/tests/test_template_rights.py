"""Each role has exactly the permissions that its function needs, on its part of the stack."""

import json
import re

import pytest

from template_parts import TEXT, all_statements, listed, of_type, parse, properties, resources, statements, targets


@pytest.fixture
def template():
    return parse(TEXT)


# Permissions on KmsKeyArn, through the services that store data.
KEY = {"KmsKeyArn": "kms:Decrypt kms:Encrypt kms:GenerateDataKey kms:DescribeKey"}

RIGHTS = {
    "CatcherRole": {
        "Inbox": "dynamodb:PutItem dynamodb:UpdateItem dynamodb:GetItem",
        "Bodies": "s3:PutObject s3:PutObjectTagging",
        "WorkQueue": "sqs:SendMessage",
        "SpillQueue": "sqs:SendMessage",
        "ssm": "ssm:GetParametersByPath ssm:GetParameter ssm:PutParameter",
        "secretsmanager": "secretsmanager:GetSecretValue",
        "CatcherLogs": "logs:CreateLogStream logs:PutLogEvents",
        **KEY,
    },
    "ProcessorRole": {
        "Inbox": "dynamodb:GetItem dynamodb:UpdateItem dynamodb:Query dynamodb:PutItem dynamodb:DeleteItem",
        "Inbox/index/work": "dynamodb:Query",
        "Bodies": "s3:GetObject s3:PutObjectTagging s3:ListBucket",
        "WorkQueue": "sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes"
        " sqs:ChangeMessageVisibility sqs:SendMessage",
        "LongQueue": "sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes"
        " sqs:ChangeMessageVisibility sqs:SendMessage",
        "BacklogQueue": "sqs:SendMessage",
        "ssm": "ssm:GetParametersByPath",
        "ProcessorLogs": "logs:CreateLogStream logs:PutLogEvents",
        **KEY,
    },
    "BackupSyncRole": {
        "Inbox": "dynamodb:GetItem dynamodb:BatchGetItem dynamodb:PutItem dynamodb:UpdateItem dynamodb:Query"
        " dynamodb:DeleteItem",
        "Inbox/index/work": "dynamodb:Query",
        "Inbox/index/time": "dynamodb:Query",
        "Bodies": "s3:PutObject s3:PutObjectTagging s3:ListBucket",
        "Bodies/bodies": "s3:GetObject",
        "WorkQueue": "sqs:SendMessage sqs:GetQueueAttributes",
        "BacklogQueue": "sqs:SendMessage sqs:GetQueueAttributes sqs:ReceiveMessage sqs:DeleteMessage",
        "SpillQueue": "sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes",
        "OpsDeadLetters": "sqs:SendMessage",
        "ssm": "ssm:GetParametersByPath ssm:GetParameter",
        "secretsmanager": "secretsmanager:GetSecretValue",
        "BackupSyncLogs": "logs:CreateLogStream logs:PutLogEvents",
        **KEY,
    },
    "SchedulerRole": {
        "BackupSync": "lambda:InvokeFunction",
        "OpsDeadLetters": "sqs:SendMessage",
        "KmsKeyArn": "kms:Decrypt kms:GenerateDataKey",
    },
    "DeploymentRole": {
        **dict.fromkeys(("Catcher", "Catcher:live"), "lambda:GetAlias lambda:UpdateAlias lambda:GetProvisionedConcurrencyConfig"),
        "*": "cloudwatch:DescribeAlarms",
        "NewVersionCheck": "lambda:InvokeFunction",
    },
    "NewVersionCheckRole": {
        "Catcher:*": "lambda:InvokeFunction",
        "*": "codedeploy:PutLifecycleEventHookExecutionStatus",
        "NewVersionCheckLogs": "logs:CreateLogStream logs:PutLogEvents",
    },
}


def test_each_role_may_do_what_its_function_calls_and_no_more(template):
    assert {name for name, _ in of_type(template, "AWS::IAM::Role")} == set(RIGHTS)
    for role, rights in RIGHTS.items():
        granted = {}
        for statement in statements(template, role):
            assert statement["Effect"] == "Allow"
            for on in targets(statement):
                granted.setdefault(on, set()).update(listed(statement["Action"]))
        assert granted == {on: set(actions.split()) for on, actions in rights.items()}, role


def test_no_role_may_delete_an_event_scan_or_do_anything_at_all(template):
    for role, _ in of_type(template, "AWS::IAM::Role"):
        for statement in statements(template, role):
            # Queue positions of an entity and entries of objects to fetch are not events. Positions that
            # stayed would block other events.
            is_no_event = statement["Sid"] in ("OrderEvents", "FetchObjects")
            for action in listed(statement["Action"]):
                deletes = action == "dynamodb:DeleteItem" and is_no_event
                assert "*" not in action and (deletes or not re.search("Delete(?!Message)|Scan", action)), role
            # These two actions support only `*`.
            if statement["Sid"] in ("SeeAlarms", "TellCodeDeploy"):
                continue
            for resource in resources(statement):
                # `*` is allowed only below one resource of this stack.
                text = resource if isinstance(resource, str) else resource.get("Fn::Sub", "${}")
                assert "*" not in re.sub(r"/\*(/handshake)?$|^\$\{Catcher.Arn\}:\*$", "", text), f"{role}: {text}"
                assert "${" in text, f"{role}: {text} is not part of this stack"


# The attributes of an event that each statement lets the catcher name when it changes the event.
CHANGED = {
    "NoteSecondWay": ["pk", "sk", "via", "also_webhook", "dr", "dc", "du", "dat"],
    "RecordTrial": ["pk", "sk", "sv", "te", "ten", "teok", "tok", "tat", "tew"],
    "AdoptFromTrial": [
        "pk", "sk", "sv", "tok", "erased_at", "st", "gpk", "gsk", "enq", "ttl", "reason", "done_at", "epoch", "run",
    ],
}


def test_functions_reach_only_their_rows_of_the_table(template):
    rows = {
        "CatcherRole": {
            "PutEvents": ("PutItem", ["E#*", "O#*", "Q#*"]),
            "NoteSecondWay": ("UpdateItem", ["E#*"]),
            "RecordTrial": ("UpdateItem", ["E#*"]),
            "AdoptFromTrial": ("UpdateItem", ["E#*"]),
            "CountRefused": ("UpdateItem", ["Q#*"]),
            "NoteMissingPaths": ("UpdateItem", ["PATHS"]),
            "ReadKeys": ("GetItem", ["K#*"]),
            "NoteObjects": ("GetItem PutItem UpdateItem", ["F#*"]),
            "ReadSources": ("GetItem", ["CFG"]),
        },
        "ProcessorRole": {
            "WorkOnEvents": ("GetItem UpdateItem", ["E#*"]),
            "RecordApprovals": ("PutItem", ["LOG#*"]),
            "SpareDestinations": ("GetItem UpdateItem", ["SYS"]),
            "NoteMissingPaths": ("UpdateItem", ["PATHS"]),
            "OrderEvents": ("Query PutItem UpdateItem DeleteItem", ["O#*"]),
            "ReadSources": ("GetItem", ["CFG"]),
        },
        "BackupSyncRole": {
            "KeepLedger": ("GetItem PutItem UpdateItem", ["E#*", "O#*", "SYNC#*", "SYS"]),
            "RecordRepairs": ("PutItem", ["LOG#*"]),
            "ReadSeveralItems": ("BatchGetItem", ["E#*", "Q#*"]),
            "ReadFigures": ("Query", ["SYNC#*", "SYS", "PATHS"]),
            "KeepKeys": ("GetItem PutItem", ["K#*"]),
            "JudgeWaiting": ("Query UpdateItem", ["Q#*"]),
            "FetchObjects": ("Query PutItem UpdateItem DeleteItem", ["F#*"]),
            "ReadSources": ("GetItem", ["CFG"]),
        },
    }
    for role, allowed in rows.items():
        granted = {s["Sid"]: s for s in statements(template, role) if targets(s) == {"Inbox"}}
        assert granted.keys() == allowed.keys(), role
        for sid, statement in granted.items():
            actions, keys = allowed[sid]
            assert listed(statement["Action"]) == [f"dynamodb:{action}" for action in actions.split()], sid
            condition = {
                "ForAllValues:StringLike": {"dynamodb:LeadingKeys": keys},
                "Null": {"dynamodb:LeadingKeys": False},
            }
            if sid == "PutEvents":
                condition["StringEqualsIfExists"] = {"dynamodb:ReturnValues": "NONE"}
            if sid in CHANGED:
                condition["ForAllValues:StringEquals"] = {"dynamodb:Attributes": CHANGED[sid]}
                condition["Null"]["dynamodb:Attributes"] = False
                condition["StringEqualsIfExists"] = {"dynamodb:ReturnValues": "NONE"}
            assert statement["Condition"] == condition, sid


def test_functions_read_sources_from_the_table_only_where_that_is_asked_for(template):
    assert template["Parameters"]["Sources"]["Default"] == "embedded"
    assert template["Parameters"]["AllowedHosts"]["Default"] == ""
    assert template["Conditions"]["FollowsTable"] == {"Fn::Equals": [{"Ref": "Sources"}, "table"]}
    for role in ("CatcherRole", "ProcessorRole", "BackupSyncRole"):
        granted = [s for s in all_statements(template, role) if "CFG" in json.dumps(s)]
        (guarded,) = [s for s in granted if "Fn::If" in s and s["Fn::If"][0] == "FollowsTable"]
        assert granted == [guarded] and guarded["Fn::If"][2] == {"Ref": "AWS::NoValue"}, role


def test_the_catcher_changes_nothing_of_an_event_but_how_it_came(template):
    changes = [s["Condition"] for s in statements(template, "CatcherRole") if "dynamodb:UpdateItem" in listed(s["Action"])]
    # Counters of rejected requests, missing paths and objects to fetch are not events.
    others = (["Q#*"], ["PATHS"], ["F#*"])
    events = [c for c in changes if c["ForAllValues:StringLike"]["dynamodb:LeadingKeys"] not in others]
    assert [c["ForAllValues:StringEquals"]["dynamodb:Attributes"] for c in events] == list(CHANGED.values())
    assert {c["StringEqualsIfExists"]["dynamodb:ReturnValues"] for c in events} == {"NONE"}


def test_only_what_reaches_yours_takes_a_policy_from_outside(template):
    taken = {n: r["ManagedPolicyArns"] for n, r in of_type(template, "AWS::IAM::Role") if "ManagedPolicyArns" in r}
    policy = {
        name: [{"Fn::If": [f"Has{name}Policy", {"Ref": f"{name}PolicyArn"}, {"Ref": "AWS::NoValue"}]}]
        for name in ("Destination", "State")
    }
    assert taken == {"ProcessorRole": policy["Destination"], "BackupSyncRole": policy["State"]}
    for name in policy:
        assert template["Parameters"][f"{name}PolicyArn"]["Default"] == ""


# The roles of the functions that verify signatures.
MANAGED = ("CatcherRole", "BackupSyncRole")


def test_secrets_manager_is_read_below_a_prefix_only_and_only_where_there_is_one(template):
    assert template["Parameters"]["SecretsManagerPrefix"]["Default"] == ""
    assert template["Conditions"]["HasManagedSecrets"] == {
        "Fn::Not": [{"Fn::Equals": [{"Ref": "SecretsManagerPrefix"}, ""]}]
    }
    place = ":${AWS::Region}:${AWS::AccountId}:"
    allowed = {
        "ssm:GetParameter": f"ssm{place}parameter/aws/reference/secretsmanager/${{SecretsManagerPrefix}}/*",
        "secretsmanager:GetSecretValue": f"secretsmanager{place}secret:${{SecretsManagerPrefix}}/*",
    }
    for role, _ in of_type(template, "AWS::IAM::Role"):
        found = {}
        for statement in all_statements(template, role):
            if not re.search("secretsmanager[/:]", json.dumps(statement)):
                continue
            condition, granted, nothing = statement["Fn::If"]
            assert (condition, nothing) == ("HasManagedSecrets", {"Ref": "AWS::NoValue"}), role
            found[granted["Action"]] = granted["Resource"]["Fn::Sub"].removeprefix("arn:${AWS::Partition}:")
        assert found == (allowed if role in MANAGED else {}), role


def test_a_key_of_yours_is_used_through_services_only(template):
    for role, _ in of_type(template, "AWS::IAM::Role"):
        for statement in all_statements(template, role):
            if "kms:" not in json.dumps(statement):
                continue
            condition, granted, nothing = statement["Fn::If"]
            assert (condition, nothing) == ("HasKmsKey", {"Ref": "AWS::NoValue"}), role
            assert granted["Resource"] == {"Ref": "KmsKeyArn"}, role
            via = granted["Condition"]["StringEquals"]["kms:ViaService"]
            services = {name["Fn::Sub"].removesuffix(".${AWS::Region}.${AWS::URLSuffix}") for name in via}
            # Only roles that read secrets in Secrets Manager decrypt there.
            managed = {"secretsmanager"} if role in MANAGED else set()
            assert services <= {"dynamodb", "sqs", "s3", "ssm", "lambda"} | managed, role


def test_each_role_keeps_within_a_boundary_where_there_is_one(template):
    for name, role in of_type(template, "AWS::IAM::Role"):
        boundary = {"Fn::If": ["HasBoundary", {"Ref": "PermissionsBoundaryArn"}, {"Ref": "AWS::NoValue"}]}
        assert role.get("PermissionsBoundary") == boundary, name


def test_only_this_account_may_use_a_role(template):
    for name, role in of_type(template, "AWS::IAM::Role"):
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        service = {"SchedulerRole": "scheduler", "DeploymentRole": "codedeploy"}.get(name, "lambda")
        assert trust["Principal"] == {"Service": f"{service}.amazonaws.com"}
        if service != "lambda":
            assert trust["Condition"]["StringEquals"]["aws:SourceAccount"] == {"Ref": "AWS::AccountId"}
    permission = properties(template, "ApiMayInvokeCatcher")
    assert permission["SourceArn"]["Fn::Sub"].endswith(":${Api}/*/*/in/*")
    assert permission["FunctionName"] == properties(template, "CatcherIntegration")["IntegrationUri"]


def test_a_second_stack_fits_into_the_same_account(template):
    for resource, given in template["Resources"].items():
        # The user chooses the domain name, which is globally unique.
        if given.get("Condition") in ("HasDomain", "HasRecord"):
            continue
        for prop, name in given["Properties"].items():
            if prop in ("Name", "LogGroupName") or prop == given["Type"].split("::")[-1] + "Name":
                if given["Type"] != "AWS::ApiGatewayV2::Stage":
                    ours = isinstance(name, dict) and name.get("Ref") in template["Resources"]
                    assert ours or "AWS::StackName" in json.dumps(name), f"{resource}: {prop}"
