"""What must hold between the parts of template.yaml, and between it and the code.

No linter knows these. Each test takes the parsed template, so that the last test here can give
it a broken one and see it fail.
"""

import json
import re
from pathlib import Path

import pytest
from samcli.yamlhelper import yaml_parse

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "template.yaml").read_text()
TIMING = (ROOT / "shared/src/timing.rs").read_text()
RETENTION = (ROOT / "shared/src/ledger/retention.rs").read_text()
DAY = 24 * 3600
FUNCTIONS = {"Catcher": "catcher", "Processor": "processor", "BackupSync": "backup-sync"}


@pytest.fixture
def template():
    return yaml_parse(TEXT)


# -------------------------------------------------------------------- time


def test_nothing_outlives_what_it_relies_on(template):
    effect, lease = constant("EFFECT_TIMEOUT"), constant("LEASE")
    timeout = properties(template, "Processor")["Timeout"]
    for queue in ("Doorbell", "Backlog"):
        visibility = properties(template, queue)["VisibilityTimeout"]
        window = properties(template, f"{queue}Mapping").get("MaximumBatchingWindowInSeconds", 0)
        assert effect + 10 <= lease <= timeout < visibility
        # What Lambda asks for: throttled batches are tried again within one visibility timeout.
        assert visibility >= 6 * timeout + window


def test_senders_hear_from_the_catcher_before_the_gateway_gives_up(template):
    gateway = properties(template, "CatcherIntegration")["TimeoutInMillis"]
    assert properties(template, "Catcher")["Timeout"] * 1000 <= gateway <= 30_000


def test_a_message_lives_longer_where_it_waits_for_people(template):
    doorbell = properties(template, "Doorbell")["MessageRetentionPeriod"]
    assert doorbell == properties(template, "Backlog")["MessageRetentionPeriod"] == 4 * DAY
    for queue in ("DeadDoorbells", "Spill", "OpsDeadLetters"):
        assert properties(template, queue)["MessageRetentionPeriod"] == 14 * DAY > doorbell


def test_schedules_are_written_as_the_scheduler_reads_them(template):
    for name, task, every in [
        ("SweepSchedule", "sweep", 1),
        ("DrainSchedule", "drain", 1),
        ("SyncSchedule", "sync", 15),
        ("CountSchedule", "count", 10),
    ]:
        schedule = properties(template, name)
        number, unit = re.fullmatch(r"rate\((\d+) (minutes?)\)", schedule["ScheduleExpression"]).groups()
        assert int(number) == every and unit == ("minute" if every == 1 else "minutes")
        assert json.loads(schedule["Target"]["Input"]) == {"task": task}
        assert schedule["Target"]["Arn"] == arn_of("BackupSync")
        assert schedule["Target"]["RoleArn"] == arn_of("SchedulerRole")
        assert schedule["Target"]["DeadLetterConfig"]["Arn"] == arn_of("OpsDeadLetters")
        if task == "sync":
            assert int(number) * 60 == constant("SYNC_EVERY")
        # A start that waited longer than one interval has been overtaken by the next.
        assert schedule["Target"]["RetryPolicy"]["MaximumEventAgeInSeconds"] <= every * 60


def test_what_is_compared_is_compared_on_a_schedule_of_its_own(template):
    schedule = properties(template, "ReconcileSchedule")
    assert schedule["ScheduleExpression"] == {"Ref": "ReconcileEvery"}
    every = template["Parameters"]["ReconcileEvery"]
    assert every["Default"] == "rate(1 day)"
    for rate in every["AllowedValues"]:
        number, unit = re.fullmatch(r"rate\((\d+) (hour|day)s?\)", rate).groups()
        assert rate.endswith(f" {unit}{'' if number == '1' else 's'})")
    assert json.loads(schedule["Target"]["Input"]) == {"task": "reconcile"}
    assert schedule["Target"]["Arn"] == arn_of("BackupSync")
    assert schedule["Target"]["DeadLetterConfig"]["Arn"] == arn_of("OpsDeadLetters")


def test_endpoints_are_looked_at_before_a_provider_gives_up(template):
    schedule = properties(template, "EndpointsSchedule")
    assert schedule["ScheduleExpression"] == "rate(1 hour)"
    assert json.loads(schedule["Target"]["Input"]) == {"task": "endpoints"}
    assert schedule["Target"]["Arn"] == arn_of("BackupSync")
    assert schedule["Target"]["DeadLetterConfig"]["Arn"] == arn_of("OpsDeadLetters")


def test_drift_and_a_dark_endpoint_do_not_go_unseen(template):
    for name, alarm_name, line, field, every in [
        ("DriftMetric", "DriftAlarm", "reconcile", "drift", DAY),
        ("EndpointMetric", "EndpointAlarm", "endpoint", "dark", 3600),
    ]:
        metric, alarm = properties(template, name), properties(template, alarm_name)
        code = "".join(file.read_text() for file in (ROOT / "functions/backup-sync/src").rglob("*.rs"))
        assert metric["LogGroupName"] == {"Ref": "BackupSyncLogs"}
        assert metric["FilterPattern"] == f'{{ $.fields.metric = "{line}" }}'
        assert f'metric = "{line}"' in code and f"{field} = {field}" in code
        (made,) = metric["MetricTransformations"]
        assert made["MetricValue"] == f"$.fields.{field}"
        assert (alarm["Namespace"], alarm["MetricName"]) == (made["MetricNamespace"], made["MetricName"])
        assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0, "GreaterThanThreshold")
        # Longer than the time between two runs, so that it does not fall silent between them.
        assert alarm["Period"] * alarm["EvaluationPeriods"] > every
        assert alarm["AlarmActions"]["Fn::If"][0] == "HasAlarmTopic"


def test_the_stack_says_its_names_in_one_parameter(template):
    names = properties(template, "Names")
    assert names["Type"] == "String" and names["Name"] == {"Fn::Sub": "/${AWS::StackName}/names"}
    text = names["Value"]["Fn::Sub"]
    said = json.loads(text)
    # What SSM keeps free of charge, with room for what the names of a stack become.
    assert len(text) + 100 * len(said) < 4096
    # Each function reads its own secrets only: what is here is below none of their paths.
    assert not any(part in names["Name"]["Fn::Sub"] for part in ("ingress", "egress", "provider-api"))
    for name, value in said.items():
        for resource in re.findall(r"\$\{(\w+)(?:\.\w+)?\}", value):
            assert resource in template["Resources"], name


# -------------------------------------------------------------------- queues


def test_a_doorbell_that_cannot_be_answered_ends_with_the_dead_ones(template):
    for queue in ("Doorbell", "Backlog"):
        redrive = properties(template, queue)["RedrivePolicy"]
        assert redrive == {"deadLetterTargetArn": arn_of("DeadDoorbells"), "maxReceiveCount": 10}


def test_what_is_spilled_outlasts_the_outage_and_does_not_go_unseen(template):
    spill = properties(template, "Spill")
    # An outage of a day is more than a thousand receives in vain.
    assert "RedrivePolicy" not in spill
    assert spill["MaximumMessageSize"] == 1024 * 1024
    # The code hides what it has received for longer than it drains, and a run ends in time.
    assert constant("SPILL_HIDDEN") > constant("DRAIN") + 60
    assert constant("DRAIN") < 60 < properties(template, "BackupSync")["Timeout"]
    for name, metric in (("SpilledEventsAlarm", "Visible"), ("HiddenSpilledEventsAlarm", "NotVisible")):
        alarm = properties(template, name)
        assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": {"Fn::GetAtt": ["Spill", "QueueName"]}}]
        assert (alarm["MetricName"], alarm["Threshold"]) == (f"ApproximateNumberOfMessages{metric}", 0)


def test_one_bad_record_does_not_take_its_batch_along(template):
    for queue, concurrency in (("Doorbell", 5), ("Backlog", 2)):
        mapping = properties(template, f"{queue}Mapping")
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert mapping["BatchSize"] == 10
        assert mapping["ScalingConfig"] == {"MaximumConcurrency": concurrency}
        assert mapping["EventSourceArn"] == arn_of(queue)
        assert mapping["FunctionName"] == {"Ref": "Processor"}


def test_queues_are_encrypted(template):
    for name, queue in of_type(template, "AWS::SQS::Queue"):
        assert queue.get("SqsManagedSseEnabled") is True, name


def test_a_failed_run_is_kept(template):
    failures = properties(template, "BackupSyncFailures")
    assert failures["FunctionName"] == {"Ref": "BackupSync"}
    assert failures["DestinationConfig"]["OnFailure"]["Destination"] == arn_of("OpsDeadLetters")


# -------------------------------------------------------------------- storage


def test_the_table_has_the_keys_and_indexes_of_the_ledger(template):
    table = properties(template, "Inbox")
    types = {a["AttributeName"]: a["AttributeType"] for a in table["AttributeDefinitions"]}
    assert types == {"pk": "S", "sk": "S", "gpk": "S", "gsk": "N", "tpk": "S", "tsk": "S"}
    assert keys(table) == ("pk", "sk")
    indexes = {index["IndexName"]: index for index in table["GlobalSecondaryIndexes"]}
    assert {name: keys(index) for name, index in indexes.items()} == {
        "work": ("gpk", "gsk"),
        "time": ("tpk", "tsk"),
    }
    assert all(i["Projection"] == {"ProjectionType": "KEYS_ONLY"} for i in indexes.values())


def test_the_table_forgets_in_time_and_never_by_accident(template):
    table = properties(template, "Inbox")
    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    (replica,) = table["Replicas"]
    assert replica["Region"] == {"Ref": "AWS::Region"}
    assert replica["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
    assert replica["DeletionProtectionEnabled"] == {"Ref": "DeletionProtection"}
    assert template["Parameters"]["DeletionProtection"]["Default"] == "true"


def test_what_is_stored_outlives_the_stack(template):
    for name in ("Inbox", "Bodies"):
        resource = template["Resources"][name]
        assert resource["DeletionPolicy"] == "RetainExceptOnCreate"
        assert resource["UpdateReplacePolicy"] == "Retain"


def test_bodies_are_private_and_deleted_after_the_days_that_they_say(template):
    bucket = properties(template, "Bodies")
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    rules = bucket["LifecycleConfiguration"]["Rules"]
    assert {rule["Status"] for rule in rules} == {"Enabled"}
    # No rule without a tag: it would be one for what is still open as well.
    days = [rule for rule in rules if "ExpirationInDays" in rule]
    for rule in days:
        assert rule.get("TagFilters") == [{"Key": "mitt-keep", "Value": str(rule["ExpirationInDays"])}]
    code = re.search(r"BODY_DAYS: \[u64; \d+\] = \[(.*?)\]", RETENTION)[1]
    assert [rule["ExpirationInDays"] for rule in days] == [int(day) for day in code.split(",")]
    (statement,) = properties(template, "BodiesPolicy")["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Deny", "s3:*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": False}}


# -------------------------------------------------------------------- functions


def test_each_function_is_built_from_its_own_binary(template):
    assert {name for name, _ in of_type(template, "AWS::Serverless::Function")} == set(FUNCTIONS)
    for name, binary in FUNCTIONS.items():
        assert template["Resources"][name]["Metadata"] == {
            "BuildMethod": "rust-cargolambda",
            "BuildProperties": {"Binary": binary},
        }
        function = properties(template, name)
        assert (function["Runtime"], function["Handler"]) == ("provided.al2023", "bootstrap")
        # The workspace as a whole: with a folder alone, a changed shared crate is not noticed.
        assert function["CodeUri"] == "."
        assert function["Architectures"] == [{"Ref": "Architecture"}]


def test_each_function_has_its_own_role_and_secrets(template):
    paths = {"Catcher": "ingress", "Processor": "egress", "BackupSync": "provider-api"}
    for name, path in paths.items():
        function = properties(template, name)
        assert function["Role"] == arn_of(f"{name}Role")
        variables = function["Environment"]["Variables"]
        assert variables == {
            "MITT_TABLE": {"Ref": "Inbox"},
            "MITT_QUEUE_URL": {"Ref": "Doorbell"},
            "MITT_SPILL_QUEUE_URL": {"Ref": "Spill"},
            "MITT_BODY_BUCKET": {"Ref": "Bodies"},
            "MITT_SECRETS_PATH": {"Fn::Sub": "/${AWS::StackName}/" + path},
            "MITT_SOURCES_FILE": {"Ref": "SourcesFile"},
        } | (
            # Requests that waited for a certificate are verified here.
            {"MITT_INGRESS_PATH": {"Fn::Sub": "/${AWS::StackName}/ingress"}} if name == "BackupSync" else {}
        ) | (
            # What arrives at the catcher is never old.
            {} if name == "Catcher" else {"MITT_BACKLOG_QUEUE_URL": {"Ref": "Backlog"}}
        )
        granted = [s for s in statements(template, f"{name}Role") if s["Sid"] == "ReadSecrets"]
        assert [r["Fn::Sub"].split("/", 1)[1] for r in granted[0]["Resource"]] == [
            "${AWS::StackName}/" + read + below
            for read in ([path, "ingress"] if name == "BackupSync" else [path])
            for below in ("", "/*")
        ]


def test_a_sender_sets_a_secret_only_where_that_is_asked_for_and_never_another_ones(template):
    (guarded,) = [s for s in all_statements(template, "CatcherRole") if "Fn::If" in s]
    assert guarded["Fn::If"][0] == "HandshakesSetSecrets"
    assert guarded["Fn::If"][2] == {"Ref": "AWS::NoValue"}
    assert template["Parameters"]["AllowArming"]["Default"] == "false"
    statement = guarded["Fn::If"][1]
    assert statement["Action"] == "ssm:PutParameter"
    assert statement["Resource"]["Fn::Sub"].endswith("parameter/${AWS::StackName}/ingress/*/handshake")
    assert statement["Condition"] == {"StringEquals": {"ssm:Overwrite": "false"}}


def test_no_secret_can_be_given_to_the_template(template):
    secret = re.compile(r"secret|password|token|api_?key|private", re.I)
    for name, parameter in template["Parameters"].items():
        assert not secret.search(name) and "NoEcho" not in parameter, name
    for name, function in of_type(template, "AWS::Serverless::Function"):
        for variable in function["Environment"]["Variables"]:
            assert not secret.search(variable.replace("MITT_SECRETS_PATH", "")), f"{name}: {variable}"
    assert "{{resolve:" not in json.dumps(template), "it would end up in the environment"


def test_every_log_is_ours_and_ends(template):
    for name, group in of_type(template, "AWS::Logs::LogGroup"):
        assert group.get("RetentionInDays") == {"Ref": "LogRetentionDays"}, name
    for name in FUNCTIONS:
        assert properties(template, name)["LoggingConfig"]["LogGroup"] == {"Ref": f"{name}Logs"}
        assert template["Resources"][f"{name}Logs"]["Type"] == "AWS::Logs::LogGroup"


# -------------------------------------------------------------------- HTTP


def test_the_api_has_the_three_routes_and_nothing_else(template):
    routes = [route for _, route in of_type(template, "AWS::ApiGatewayV2::Route")]
    assert {r["RouteKey"] for r in routes} == {f"{m} /in/{{source}}" for m in ("POST", "GET", "HEAD")}
    assert {r["Target"]["Fn::Sub"] for r in routes} == {"integrations/${CatcherIntegration}"}
    integration = properties(template, "CatcherIntegration")
    assert integration["PayloadFormatVersion"] == "2.0"
    assert integration["IntegrationUri"] == arn_of("Catcher")
    stage = properties(template, "Stage")
    assert (stage["StageName"], stage["AutoDeploy"]) == ("$default", True)
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] == {"Ref": "IngressRateLimit"}
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] == {"Ref": "IngressBurstLimit"}


def test_the_access_log_holds_nothing_that_a_sender_chose(template):
    log = properties(template, "Stage")["AccessLogSettings"]
    assert log["DestinationArn"] == arn_of("ApiLogs")
    assert set(re.findall(r"\$context\.([\w.]+)", log["Format"])) <= {
        "requestId", "requestTimeEpoch", "identity.sourceIp", "routeKey", "status", "responseLength",
        "responseLatency", "integrationLatency", "integrationErrorMessage", "error.message",
    }  # fmt: skip
    assert "$context.requestId" in log["Format"]
    json.loads(log["Format"])


# -------------------------------------------------------------------- metrics


def test_metrics_are_made_of_fields_that_the_code_logs(template):
    made = {}
    for name, filter in of_type(template, "AWS::Logs::MetricFilter"):
        assert filter["LogGroupName"] == {"Ref": "BackupSyncLogs"}, name
        [metric] = filter["MetricTransformations"]
        assert metric["MetricNamespace"] == {"Fn::Sub": "Mitt/${AWS::StackName}"}, name
        fields = re.findall(r"\$\.fields\.(\w+)", filter["FilterPattern"] + metric["MetricValue"])
        assert fields, name
        for field in fields:
            # At INFO and below it would depend on LogLevel whether there is a metric.
            assert logged_loudly(field), f"{name}: backup-sync logs no {field} at WARN or ERROR"
        made[metric["MetricName"]] = metric["MetricValue"]
    assert made == {
        "MissedEvents": "$.fields.missed_events",
        "MissRate": "$.fields.miss_rate_percent",
        "SilentSources": "1",
        "SyncFailures": "$.fields.sync_failed",
        "Drift": "$.fields.drift",
        "DarkEndpoints": "$.fields.dark",
    }


def test_too_many_missed_events_are_an_alarm(template):
    alarm = properties(template, "MissRateAlarm")
    [metric] = properties(template, "MissRateMetric")["MetricTransformations"]
    assert (alarm["Namespace"], alarm["MetricName"]) == (metric["MetricNamespace"], metric["MetricName"])
    # One bad source is not to be hidden by the others, and no line means that nothing was missed.
    assert (alarm["Statistic"], alarm["TreatMissingData"]) == ("Maximum", "notBreaching")
    assert alarm["Threshold"] == {"Ref": "MissRatePercent"} and alarm["ComparisonOperator"] == "GreaterThanThreshold"
    assert template["Parameters"]["MissRatePercent"]["Type"] == "Number"
    # A run is sure to fall into each period.
    assert alarm["Period"] >= 2 * constant("SYNC_EVERY")


# -------------------------------------------------------------------- rights

RIGHTS = {
    "CatcherRole": {
        "Inbox": "dynamodb:PutItem dynamodb:UpdateItem dynamodb:GetItem",
        "Bodies": "s3:PutObject s3:PutObjectTagging",
        "Doorbell": "sqs:SendMessage",
        "Spill": "sqs:SendMessage",
        "ssm": "ssm:GetParametersByPath ssm:PutParameter",
        "CatcherLogs": "logs:CreateLogStream logs:PutLogEvents",
    },
    "ProcessorRole": {
        "Inbox": "dynamodb:GetItem dynamodb:UpdateItem dynamodb:Query dynamodb:PutItem dynamodb:DeleteItem",
        "Bodies": "s3:GetObject s3:PutObjectTagging s3:ListBucket",
        **dict.fromkeys(
            ("Doorbell", "Backlog"),
            "sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes"
            " sqs:ChangeMessageVisibility sqs:SendMessage",
        ),
        "ssm": "ssm:GetParametersByPath",
        "ProcessorLogs": "logs:CreateLogStream logs:PutLogEvents",
    },
    "BackupSyncRole": {
        "Inbox": "dynamodb:GetItem dynamodb:PutItem dynamodb:UpdateItem dynamodb:Query",
        "Inbox/index/work": "dynamodb:Query",
        "Inbox/index/time": "dynamodb:Query",
        "Bodies": "s3:PutObject s3:PutObjectTagging s3:ListBucket",
        "Doorbell": "sqs:SendMessage sqs:GetQueueAttributes",
        "Backlog": "sqs:SendMessage sqs:GetQueueAttributes",
        "Spill": "sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes",
        "OpsDeadLetters": "sqs:SendMessage",
        "ssm": "ssm:GetParametersByPath",
        "BackupSyncLogs": "logs:CreateLogStream logs:PutLogEvents",
    },
    "SchedulerRole": {"BackupSync": "lambda:InvokeFunction", "OpsDeadLetters": "sqs:SendMessage"},
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
            # Places in line are no events, and would stand in the way of others.
            in_line = statement["Sid"] == "OrderEvents"
            for action in listed(statement["Action"]):
                deletes = action == "dynamodb:DeleteItem" and in_line
                assert "*" not in action and (deletes or not re.search("Delete(?!Message)|Scan", action)), role
            for resource in listed(statement["Resource"]):
                # A star may stand for what is below one resource of this stack, not for more.
                text = resource if isinstance(resource, str) else resource.get("Fn::Sub", "${}")
                assert "*" not in re.sub(r"/\*(/handshake)?$", "", text), f"{role}: {text}"
                assert "${" in text, f"{role}: {text} is not of this stack"


# All that the catcher may name when it changes an event: its key, how it came, and how it came too.
NOTED = ["pk", "sk", "via", "also_webhook"]


def test_functions_reach_only_their_rows_of_the_table(template):
    rows = {
        "CatcherRole": {
            "PutEvents": ("PutItem", ["E#*", "O#*", "Q#*"]),
            "NoteSecondWay": ("UpdateItem", ["E#*"]),
            "CountRefused": ("UpdateItem", ["Q#*"]),
            "ReadKeys": ("GetItem", ["K#*"]),
        },
        "ProcessorRole": {
            "WorkOnEvents": ("GetItem UpdateItem", ["E#*"]),
            "SpareDestinations": ("GetItem UpdateItem", ["SYS"]),
            "OrderEvents": ("Query PutItem UpdateItem DeleteItem", ["O#*"]),
        },
        "BackupSyncRole": {
            "KeepLedger": ("GetItem PutItem UpdateItem", ["E#*", "O#*", "SYNC#*", "SYS"]),
            "ReadFigures": ("Query", ["SYNC#*", "SYS"]),
            "KeepKeys": ("GetItem PutItem", ["K#*"]),
            "JudgeWaiting": ("Query UpdateItem", ["Q#*"]),
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
            if sid == "NoteSecondWay":
                condition["ForAllValues:StringEquals"] = {"dynamodb:Attributes": NOTED}
                condition["Null"]["dynamodb:Attributes"] = False
                condition["StringEqualsIfExists"] = {"dynamodb:ReturnValues": "NONE"}
            assert statement["Condition"] == condition, sid


def test_the_catcher_changes_nothing_of_an_event_but_how_it_came(template):
    changes = [s["Condition"] for s in statements(template, "CatcherRole") if "dynamodb:UpdateItem" in listed(s["Action"])]
    events = [c for c in changes if c["ForAllValues:StringLike"]["dynamodb:LeadingKeys"] != ["Q#*"]]
    assert [c["ForAllValues:StringEquals"]["dynamodb:Attributes"] for c in events] == [NOTED]
    assert [c["StringEqualsIfExists"]["dynamodb:ReturnValues"] for c in events] == ["NONE"]


def test_only_what_reaches_yours_takes_a_policy_from_outside(template):
    taken = {n: r["ManagedPolicyArns"] for n, r in of_type(template, "AWS::IAM::Role") if "ManagedPolicyArns" in r}
    policy = {
        name: [{"Fn::If": [f"Has{name}Policy", {"Ref": f"{name}PolicyArn"}, {"Ref": "AWS::NoValue"}]}]
        for name in ("Destination", "State")
    }
    assert taken == {"ProcessorRole": policy["Destination"], "BackupSyncRole": policy["State"]}
    for name in policy:
        assert template["Parameters"][f"{name}PolicyArn"]["Default"] == ""


def test_only_this_account_may_use_a_role(template):
    for name, role in of_type(template, "AWS::IAM::Role"):
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        scheduler = name == "SchedulerRole"
        assert trust["Principal"] == {"Service": "scheduler.amazonaws.com" if scheduler else "lambda.amazonaws.com"}
        if scheduler:
            assert trust["Condition"]["StringEquals"]["aws:SourceAccount"] == {"Ref": "AWS::AccountId"}
    permission = properties(template, "ApiMayInvokeCatcher")
    assert permission["SourceArn"]["Fn::Sub"].endswith(":${Api}/*/*/in/*")


def test_a_second_stack_fits_into_the_same_account(template):
    for resource, given in template["Resources"].items():
        for prop, name in given["Properties"].items():
            if prop in ("Name", "LogGroupName") or prop == given["Type"].split("::")[-1] + "Name":
                if given["Type"] != "AWS::ApiGatewayV2::Stage":
                    ours = isinstance(name, dict) and name.get("Ref") in template["Resources"]
                    assert ours or "AWS::StackName" in json.dumps(name), f"{resource}: {prop}"


# -------------------------------------------------------------------- help


def constant(name: str) -> int:
    """Seconds of a constant in the code."""
    found = re.search(rf"^pub const {name}: Duration = Duration::from_secs\((\d+)\);$", TIMING, re.M)
    assert found, f"shared/src/timing.rs no longer says what {name} is"
    return int(found[1])


def logged_loudly(field):
    """Whether a line of backup-sync at WARN or ERROR, or at a level that depends, has this field."""
    code = "".join(file.read_text() for file in sorted((ROOT / "functions/backup-sync/src").rglob("*.rs")))
    lines = re.findall(r"tracing::(?:warn|error|\$level)!\((.*?)\)(?:;|\n *\};)", code, re.S)
    return any(re.search(rf"\b{field}\s*=", line) for line in lines)


def properties(template, name):
    return template["Resources"][name]["Properties"]


def of_type(template, kind):
    return [(n, r["Properties"]) for n, r in template["Resources"].items() if r["Type"] == kind]


def arn_of(name):
    return {"Fn::GetAtt": [name, "Arn"]}


def keys(table):
    by_kind = {key["KeyType"]: key["AttributeName"] for key in table["KeySchema"]}
    return by_kind["HASH"], by_kind["RANGE"]


def all_statements(template, role):
    for policy in properties(template, role)["Policies"]:
        yield from policy["PolicyDocument"]["Statement"]


def statements(template, role):
    """All that a role may be granted, whatever the parameters."""
    for statement in all_statements(template, role):
        yield statement["Fn::If"][1] if "Fn::If" in statement else statement


def targets(statement):
    """What a statement is about: resources of the template, or `ssm` for a path of secrets."""
    return {target(resource) for resource in listed(statement["Resource"])}


def target(resource):
    if "Fn::GetAtt" in resource:
        return resource["Fn::GetAtt"][0]
    text = resource["Fn::Sub"]
    return "ssm" if ":ssm:" in text else re.sub(r"^\$\{(\w+)\.Arn\}(/\*$)?", r"\1", text)


def listed(value):
    return value if isinstance(value, list) else [value]


# -------------------------------------------------------------------- the tests, tested

BROKEN = [
    (test_schedules_are_written_as_the_scheduler_reads_them, '{"task":"count"}', '{"task":"sweep"}'),
    (test_functions_reach_only_their_rows_of_the_table, "[SYNC#*, SYS]", "[E#*, SYNC#*, SYS]"),
    (test_a_sender_sets_a_secret_only_where_that_is_asked_for_and_never_another_ones, "ssm:Overwrite: 'false'", "ssm:Overwrite: 'true'"),
    (test_functions_reach_only_their_rows_of_the_table, "[K#*]", "['*']"),
    (test_functions_reach_only_their_rows_of_the_table, "LeadingKeys: [O#*]", "LeadingKeys: [E#*, O#*]"),
    (test_nothing_outlives_what_it_relies_on, "VisibilityTimeout: 360", "VisibilityTimeout: 300"),
    (test_nothing_outlives_what_it_relies_on, "Timeout: 60", "Timeout: 30"),
    (test_nothing_outlives_what_it_relies_on, "BatchSize: 10", "BatchSize: 10\n      MaximumBatchingWindowInSeconds: 5"),
    (test_senders_hear_from_the_catcher_before_the_gateway_gives_up, "TimeoutInMillis: 10000", "TimeoutInMillis: 5000"),
    (test_a_message_lives_longer_where_it_waits_for_people, "MessageRetentionPeriod: 345600", "MessageRetentionPeriod: 1209600"),
    (test_a_message_lives_longer_where_it_waits_for_people, "MessageRetentionPeriod: 1209600", "MessageRetentionPeriod: 345600"),
    (test_schedules_are_written_as_the_scheduler_reads_them, "rate(15 minutes)", "rate(15 minute)"),
    (test_schedules_are_written_as_the_scheduler_reads_them, '{"task":"sweep"}', '{"task":"sync"}'),
    (test_schedules_are_written_as_the_scheduler_reads_them, "MaximumEventAgeInSeconds: 60 }", "MaximumEventAgeInSeconds: 600 }"),
    (test_a_doorbell_that_cannot_be_answered_ends_with_the_dead_ones, "maxReceiveCount: 10", "maxReceiveCount: 3"),
    (test_what_is_spilled_outlasts_the_outage_and_does_not_go_unseen, "      MaximumMessageSize: 1048576\n", "      MaximumMessageSize: 1048576\n      RedrivePolicy: { maxReceiveCount: 1000 }\n"),
    (test_what_is_spilled_outlasts_the_outage_and_does_not_go_unseen, "Value: !GetAtt Spill.QueueName", "Value: !GetAtt Doorbell.QueueName"),
    (test_schedules_are_written_as_the_scheduler_reads_them, '{"task":"drain"}', '{"task":"sweep"}'),
    (test_one_bad_record_does_not_take_its_batch_along, "FunctionResponseTypes: [ReportBatchItemFailures]", "FunctionResponseTypes: []"),
    (test_one_bad_record_does_not_take_its_batch_along, "MaximumConcurrency: 5", "MaximumConcurrency: 50"),
    (test_metrics_are_made_of_fields_that_the_code_logs, "$.fields.missed_events > 0", "$.fields.missed > 0"),
    (test_metrics_are_made_of_fields_that_the_code_logs, "MetricValue: $.fields.miss_rate_percent", "MetricValue: $.miss_rate_percent"),
    (test_metrics_are_made_of_fields_that_the_code_logs, "LogGroupName: !Ref BackupSyncLogs", "LogGroupName: !Ref CatcherLogs"),
    (test_too_many_missed_events_are_an_alarm, "MetricName: MissRate\n      Statistic: Maximum", "MetricName: MissRate\n      Statistic: Average"),
    (test_too_many_missed_events_are_an_alarm, "Threshold: !Ref MissRatePercent", "Threshold: 5"),
    (test_too_many_missed_events_are_an_alarm, "Namespace: !Sub Mitt/${AWS::StackName}\n      MetricName: MissRate", "Namespace: Mitt\n      MetricName: MissRate"),
    (test_queues_are_encrypted, "SqsManagedSseEnabled: true", "SqsManagedSseEnabled: false"),
    (test_a_failed_run_is_kept, "Destination: !GetAtt OpsDeadLetters.Arn", "Destination: !GetAtt Spill.Arn"),
    (test_the_table_has_the_keys_and_indexes_of_the_ledger, "AttributeName: tsk, AttributeType", "AttributeName: tks, AttributeType"),
    (test_the_table_has_the_keys_and_indexes_of_the_ledger, "gsk, AttributeType: 'N'", "gsk, AttributeType: S"),
    (test_the_table_has_the_keys_and_indexes_of_the_ledger, "KEYS_ONLY", "ALL"),
    (test_the_table_forgets_in_time_and_never_by_accident, "AttributeName: ttl", "AttributeName: expires"),
    (test_the_table_forgets_in_time_and_never_by_accident, "PointInTimeRecoveryEnabled: true", "PointInTimeRecoveryEnabled: false"),
    (test_the_table_forgets_in_time_and_never_by_accident, "Default: 'true'", "Default: 'false'"),
    (test_what_is_stored_outlives_the_stack, "DeletionPolicy: RetainExceptOnCreate", "DeletionPolicy: Delete"),
    (test_bodies_are_private_and_deleted_after_the_days_that_they_say, "IgnorePublicAcls: true", "IgnorePublicAcls: false"),
    (test_bodies_are_private_and_deleted_after_the_days_that_they_say, "ExpirationInDays: 30\n", "ExpirationInDays: 300\n"),
    (test_bodies_are_private_and_deleted_after_the_days_that_they_say, "            TagFilters: [{ Key: mitt-keep, Value: '30' }]\n", ""),
    (test_bodies_are_private_and_deleted_after_the_days_that_they_say, "Value: '30'", "Value: open"),
    (test_bodies_are_private_and_deleted_after_the_days_that_they_say, "SecureTransport: false", "SecureTransport: true"),
    (test_each_function_is_built_from_its_own_binary, "BuildMethod: rust-cargolambda", "BuildMethod: rust-cargolamda"),
    (test_each_function_is_built_from_its_own_binary, "Binary: processor", "Binary: catcher"),
    (test_each_function_is_built_from_its_own_binary, "CodeUri: .", "CodeUri: functions/catcher"),
    (test_each_function_has_its_own_role_and_secrets, "Role: !GetAtt ProcessorRole.Arn", "Role: !GetAtt CatcherRole.Arn"),
    (test_each_function_has_its_own_role_and_secrets, "parameter/${AWS::StackName}/egress/*", "parameter/${AWS::StackName}/*"),
    (test_each_function_has_its_own_role_and_secrets, "MITT_QUEUE_URL: !Ref Doorbell", "MITT_QUEUE_URL: !Ref Spill"),
    (test_no_secret_can_be_given_to_the_template, "MITT_QUEUE_URL:", "GITHUB_SECRET: x\n          MITT_QUEUE_URL:"),
    (test_no_secret_can_be_given_to_the_template, "!Ref SourcesFile", "'{{resolve:ssm-secure:/x}}'"),
    (test_no_secret_can_be_given_to_the_template, "Parameters:\n", "Parameters:\n  StripePassword: { Type: String, NoEcho: true }\n"),
    (test_every_log_is_ours_and_ends, "RetentionInDays: !Ref LogRetentionDays", "LogGroupClass: STANDARD"),
    (test_every_log_is_ours_and_ends, "LogGroup: !Ref ProcessorLogs", "LogGroup: !Ref CatcherLogs"),
    (test_the_api_has_the_three_routes_and_nothing_else, "HEAD /in/{source}", "ANY /in/{source}"),
    (test_the_api_has_the_three_routes_and_nothing_else, "PayloadFormatVersion: '2.0'", "PayloadFormatVersion: '1.0'"),
    (test_the_api_has_the_three_routes_and_nothing_else, "ThrottlingRateLimit: !Ref IngressRateLimit", "ThrottlingRateLimit: 10000"),
    (test_the_access_log_holds_nothing_that_a_sender_chose, "$context.routeKey", "$context.path"),
    (test_functions_reach_only_their_rows_of_the_table, "Action: dynamodb:PutItem", "Action: [dynamodb:PutItem, dynamodb:GetItem]"),
    (test_each_role_may_do_what_its_function_calls_and_no_more, "- sqs:ChangeMessageVisibility\n", "- sqs:PurgeQueue\n"),
    (test_no_role_may_delete_an_event_scan_or_do_anything_at_all, "Action: dynamodb:Query", "Action: dynamodb:Scan"),
    (test_no_role_may_delete_an_event_scan_or_do_anything_at_all, "Action: dynamodb:Query", "Action: dynamodb:*"),
    (test_no_role_may_delete_an_event_scan_or_do_anything_at_all, "Action: dynamodb:Query", "Action: dynamodb:DeleteItem"),
    (test_no_role_may_delete_an_event_scan_or_do_anything_at_all, "Resource: !GetAtt Spill.Arn", "Resource: '*'"),
    (test_no_role_may_delete_an_event_scan_or_do_anything_at_all, "Resource: !GetAtt Spill.Arn", "Resource: arn:aws:sqs:eu-central-1:111122223333:other"),
    (test_no_role_may_delete_an_event_scan_or_do_anything_at_all, "parameter/${AWS::StackName}/ingress/*", "*"),
    (test_functions_reach_only_their_rows_of_the_table, "dynamodb:LeadingKeys: [E#*]", "dynamodb:LeadingKeys: ['*']"),
    (test_functions_reach_only_their_rows_of_the_table, "                  'Null': { dynamodb:LeadingKeys: false }\n", ""),
    (test_the_catcher_changes_nothing_of_an_event_but_how_it_came, "dynamodb:Attributes: [pk, sk, via, also_webhook]", "dynamodb:Attributes: [pk, sk, via, also_webhook, st]"),
    (test_the_catcher_changes_nothing_of_an_event_but_how_it_came, "dynamodb:ReturnValues: NONE", "dynamodb:ReturnValues: ALL_NEW"),
    (test_functions_reach_only_their_rows_of_the_table, "dynamodb:LeadingKeys: false, dynamodb:Attributes: false", "dynamodb:LeadingKeys: false"),
    (test_what_is_compared_is_compared_on_a_schedule_of_its_own, "rate(6 hours)", "rate(6 hour)"),
    (test_what_is_compared_is_compared_on_a_schedule_of_its_own, '{"task":"reconcile"}', '{"task":"sync"}'),
    (test_drift_and_a_dark_endpoint_do_not_go_unseen, '$.fields.metric = "reconcile"', '$.fields.metric = "recon"'),
    (test_drift_and_a_dark_endpoint_do_not_go_unseen, "MetricValue: $.fields.drift", "MetricValue: $.drift"),
    (test_drift_and_a_dark_endpoint_do_not_go_unseen, "Period: 86400\n      EvaluationPeriods: 2", "Period: 86400\n      EvaluationPeriods: 1"),
    (test_drift_and_a_dark_endpoint_do_not_go_unseen, "MetricName: DarkEndpoints", "MetricName: Dark"),
    (test_endpoints_are_looked_at_before_a_provider_gives_up, "ScheduleExpression: rate(1 hour)", "ScheduleExpression: rate(1 day)"),
    (test_only_what_reaches_yours_takes_a_policy_from_outside, "!Ref StatePolicyArn, !Ref", "arn:aws:iam::aws:policy/AdministratorAccess, !Ref"),
    (test_only_what_reaches_yours_takes_a_policy_from_outside, "!Ref DestinationPolicyArn, !Ref", "arn:aws:iam::aws:policy/AdministratorAccess, !Ref"),
    (test_functions_reach_only_their_rows_of_the_table, "dynamodb:LeadingKeys: [SYS]", "dynamodb:LeadingKeys: [E#*, SYS]"),
    (test_only_this_account_may_use_a_role, "Service: lambda.amazonaws.com", "AWS: '*'"),
    (test_only_this_account_may_use_a_role, "aws:SourceAccount: !Ref AWS::AccountId", "aws:SourceAccount: '*'"),
    (test_a_second_stack_fits_into_the_same_account, "Name: !Sub ${AWS::StackName}-sweep", "Name: mitt-sweep"),
    (test_a_second_stack_fits_into_the_same_account, "/aws/lambda/${AWS::StackName}/catcher", "/aws/lambda/catcher"),
    (test_the_stack_says_its_names_in_one_parameter, "/${AWS::StackName}/names", "/${AWS::StackName}/ingress/names"),
    (test_the_stack_says_its_names_in_one_parameter, '"spill_queue_url":"${Spill}"', '"spill_queue_url":"${Spills}"'),
]  # fmt: skip


@pytest.mark.parametrize("test, sound, broken", BROKEN, ids=lambda value: getattr(value, "__name__", value))
def test_each_of_these_fails_when_it_should(test, sound, broken):
    assert sound in TEXT, "the fault can no longer be planted, move it"
    with pytest.raises(AssertionError):
        test(yaml_parse(TEXT.replace(sound, broken, 1)))


def test_none_of_these_was_forgotten():
    tests = {name for name in globals() if name.startswith("test_")}
    own = {"test_each_of_these_fails_when_it_should", "test_none_of_these_was_forgotten"}
    assert tests - own == {test.__name__ for test, _, _ in BROKEN}
