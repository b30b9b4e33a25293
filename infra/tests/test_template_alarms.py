"""Metrics, alarms and dashboard, and the runbook that says what to do."""

import json
import re
import tomllib

import pytest

from template_parts import DAY, ROOT, TEXT, constant, of_type, parse, properties

RUNBOOK = (ROOT / "infra/runbook.md").read_text()
VERBS = {verb["name"] for verb in tomllib.loads((ROOT / "infra/policies/verbs.toml").read_text())["verb"]}

# The code that writes to each log.
CODE = {
    "CatcherLogs": ("functions/catcher/src", "shared/src"),
    "ProcessorLogs": ("functions/processor/src", "shared/src"),
    "BackupSyncLogs": ("functions/backup-sync/src",),
}

# Metrics of AWS, and the dimension that selects them. CloudWatch accepts a wrong name: the alarm is
# then never raised.
# https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
# https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-metrics.html
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
# https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/metrics-dimensions.html
KNOWN = {
    "AWS/Lambda": ("FunctionName", "Errors Throttles RecursiveInvocationsDropped"),
    "AWS/ApiGateway": ("ApiId", "4xx 5xx Count Latency"),
    "AWS/SQS": (
        "QueueName",
        "ApproximateNumberOfMessagesVisible ApproximateNumberOfMessagesNotVisible ApproximateAgeOfOldestMessage",
    ),
    "AWS/DynamoDB": ("TableName", "WriteThrottleEvents"),
}

# The type of resource that each dimension names.
ABOUT = {
    "FunctionName": "AWS::Serverless::Function",
    "ApiId": "AWS::ApiGatewayV2::Api",
    "QueueName": "AWS::SQS::Queue",
    "TableName": "AWS::DynamoDB::GlobalTable",
}

# The part of a metric filter that leaves out the requests of workers.
WEBHOOKS = '($.route != "POST /work/{queue}/{op}")'

OURS = {"Fn::Sub": "Mitt/${AWS::StackName}"}

PROFILES = {
    "HasMinimalAlarms": "Heartbeat Unhealthy RefusedDeliveries",
    # With a gradual deployment, these two are in every profile.
    "IsGradual": "NewVersionErrors",
    "WatchesCatcher": "CatcherErrors",
    "HasCoreAlarms": "WorkDeadLetters OpsDeadLetters WaitingWork WaitingBacklog SpilledEvents HiddenSpilledEvents"
    " RejectedRequests MissRate Drift Endpoint ConflictingEvents OpenBreakers SilentSources",
    "HasFullAlarms": "DeadLetters Takeovers MissedEvents SyncFailures CatcherThrottles ProcessorErrors"
    " BackupSyncErrors Loop TableThrottles",
    # With an HTTP API, the first belongs to the profile core, and the others to the profile full.
    "WatchesThrottling": "ThrottledRequests",
    "WatchesApi": "SlowAnswers Flood RefusedRequests",
    # With long actions, these belong to the profiles core and full.
    "WatchesLongActions": "WaitingLongActions",
    "WatchesLongProcessor": "LongProcessorErrors LongLoop",
}

# What can fail, and the alarm of the default profile that tells of it.
FAILURES = {
    "the catcher crashes, times out or cannot start": "CatcherErrors",
    "the catcher cannot verify or store events": "RefusedDeliveries",
    "the table is unavailable for long": "SpilledEvents",
    "spilled events cannot be stored": "HiddenSpilledEvents",
    "a secret is rotated on one side": "RejectedRequests",
    "the API throttles genuine senders": "ThrottledRequests",
    "the mapping is disabled, or the processor cannot start": "WaitingWork",
    "messages cannot be processed": "WorkDeadLetters",
    "old events stay in the backlog queue": "WaitingBacklog",
    "a destination is down": "OpenBreakers",
    "events wait too long, fail for good, or need a decision": "Unhealthy",
    "the sweep stops": "Heartbeat",
    "a run of backup-sync fails, such as the sync": "OpsDeadLetters",
    "the provider disables the endpoint": "Endpoint",
    "a source sends nothing": "SilentSources",
    "events are missed": "MissRate",
    "objects differ": "Drift",
    "an event has the id of another one": "ConflictingEvents",
}
DEFAULT = "HasMinimalAlarms HasCoreAlarms WatchesCatcher WatchesThrottling".split()


@pytest.fixture
def template():
    return parse(TEXT)


# -------------------------------------------------------------------- metrics


def test_metrics_are_made_of_fields_that_the_code_logs(template):
    made = {}
    for name, filter in of_type(template, "AWS::Logs::MetricFilter"):
        group = filter["LogGroupName"]["Ref"]
        [metric] = filter["MetricTransformations"]
        assert metric["MetricNamespace"] == OURS, name
        # The stage defines the lines of API Gateway, so the code has none of their fields.
        if group == "ApiLogs":
            continue
        fields = re.findall(r"\$\.fields\.(\w+)", filter["FilterPattern"] + metric["MetricValue"])
        assert fields, name
        for field in fields:
            assert is_logged(field, group), f"{name}: no line at a level that is always logged has the field {field} in {group}"
        for word in re.findall(r'"(\w+)"', filter["FilterPattern"]):
            assert f'"{word}"' in code(group), f"{name}: the code of {group} does not contain {word}"
        assert made.setdefault(metric["MetricName"], metric["MetricValue"]) == metric["MetricValue"]
    assert made == {
        "MissedEvents": "$.fields.missed_events",
        "MissRate": "$.fields.miss_rate_percent",
        "SilentSources": "1",
        "SyncFailures": "$.fields.sync_failed",
        "Drift": "$.fields.drift",
        "DarkEndpoints": "$.fields.dark",
        "ViolatedChecks": "$.fields.violated_checks",
        "Rejected": "$.fields.refused",
        "NotRecorded": "$.fields.not_recorded",
        "ServerErrors": "$.fields.server_errors",
        "ConflictingEvents": "1",
        "Takeovers": "$.fields.takeover",
        "OpenBreakers": "1",
        "DeadLetters": "1",
    }


def test_no_stranger_raises_an_alarm_that_rolls_a_deployment_back(template):
    alarms = [ref["Ref"] for ref in properties(template, "Catcher")["DeploymentPreference"]["Alarms"]]
    assert alarms == ["CatcherErrorsAlarm", "NewVersionErrorsAlarm"]
    for name in ("RefusedDeliveriesAlarm", "NewVersionErrorsAlarm"):
        refused = properties(template, name)
        # The gateway's own metric counts each 503, and a request that names an unknown key gets a 503.
        assert (refused["Namespace"], refused["MetricName"]) == (OURS, "ServerErrors") and "Dimensions" not in refused
    assert all(alarm["MetricName"] != "5xx" for _, alarm in of_type(template, "AWS::CloudWatch::Alarm"))
    waits = re.findall(r"permit\(Kind::Waits\b.*?try_again_later\(\)", code("CatcherLogs"), re.S)
    assert waits and not any("server_errors" in wait for wait in waits)


def test_what_the_catcher_does_not_answer_is_counted(template):
    gateway = properties(template, "GatewayErrorsMetric")
    [metric] = gateway["MetricTransformations"]
    assert gateway["LogGroupName"] == {"Ref": "ApiLogs"} and metric["MetricName"] == "ServerErrors"
    logged = json.loads(properties(template, "Stage")["AccessLogSettings"]["Format"])
    # API Gateway logs a dash for a value that is not set.
    assert logged["integrationError"] == "$context.integrationErrorMessage"
    assert gateway["FilterPattern"] == f'{{ ($.integrationError != "-") && {WEBHOOKS} }}'
    assert logged["route"] == "$context.routeKey"


def test_too_many_missed_events_are_an_alarm(template):
    alarm = properties(template, "MissRateAlarm")
    [metric] = properties(template, "MissRateMetric")["MetricTransformations"]
    assert (alarm["Namespace"], alarm["MetricName"]) == (metric["MetricNamespace"], metric["MetricName"])
    # Other sources must not hide a bad one, and a missing line means that no event was missed.
    assert (alarm["Statistic"], alarm["TreatMissingData"]) == ("Maximum", "notBreaching")
    assert alarm["Threshold"] == {"Ref": "MissRatePercent"} and alarm["ComparisonOperator"] == "GreaterThanThreshold"
    assert template["Parameters"]["MissRatePercent"]["Type"] == "Number"
    # Each period contains a run.
    assert alarm["Period"] >= 2 * constant("SYNC_EVERY")


def test_drift_and_a_dark_endpoint_do_not_go_unseen(template):
    for name, alarm_name, line, field, every in [
        ("DriftMetric", "DriftAlarm", "reconcile", "drift", DAY),
        ("EndpointMetric", "EndpointAlarm", "endpoint", "dark", 3600),
    ]:
        metric, alarm = properties(template, name), properties(template, alarm_name)
        assert metric["LogGroupName"] == {"Ref": "BackupSyncLogs"}
        assert metric["FilterPattern"] == f'{{ $.fields.metric = "{line}" }}'
        assert f'metric = "{line}"' in code("BackupSyncLogs") and f"{field} = {field}" in code("BackupSyncLogs")
        (made,) = metric["MetricTransformations"]
        assert made["MetricValue"] == f"$.fields.{field}"
        assert (alarm["Namespace"], alarm["MetricName"]) == (made["MetricNamespace"], made["MetricName"])
        assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0, "GreaterThanThreshold")
        # The evaluated time is longer than the time between two runs, so that the alarm does not end between them.
        assert alarm["Period"] * alarm["EvaluationPeriods"] > every


def test_silence_of_the_sweep_is_an_alarm(template):
    every = constant("ROUND_EVERY")
    for name in ("HeartbeatAlarm", "UnhealthyAlarm"):
        alarm = properties(template, name)
        assert (alarm["Namespace"], alarm["MetricName"]) == (OURS, "ViolatedChecks"), name
        # Three periods without a line. If one line falls into the next period, the alarm is not raised.
        assert alarm["Period"] == every and alarm["DatapointsToAlarm"] == alarm["EvaluationPeriods"] == 3, name
    # A dead letter keeps the first alarm raised for days, and must not hide that the sweep has stopped.
    heartbeat, unhealthy = properties(template, "HeartbeatAlarm"), properties(template, "UnhealthyAlarm")
    assert (unhealthy["Statistic"], unhealthy["TreatMissingData"]) == ("Maximum", "ignore")
    assert unhealthy["Threshold"] == 0 and unhealthy["ComparisonOperator"] == "GreaterThanThreshold"
    assert (heartbeat["Statistic"], heartbeat["TreatMissingData"]) == ("SampleCount", "missing")
    assert heartbeat["Threshold"] == 1 and heartbeat["ComparisonOperator"] == "LessThanThreshold"
    # Without data, the alarm changes to INSUFFICIENT_DATA. A new stack begins in this state, without a change.
    assert heartbeat["InsufficientDataActions"] == heartbeat["AlarmActions"]


def test_senders_that_are_throttled_for_long_are_an_alarm(template):
    alarm, filter = properties(template, "ThrottledRequestsAlarm"), properties(template, "ThrottledRequestsMetric")
    [metric] = filter["MetricTransformations"]
    assert (alarm["Namespace"], alarm["MetricName"]) == (metric["MetricNamespace"], metric["MetricName"])
    logged = json.loads(properties(template, "Stage")["AccessLogSettings"]["Format"])
    assert filter["LogGroupName"] == {"Ref": "ApiLogs"} and logged["status"] == "$context.status"
    assert filter["FilterPattern"] == f'{{ ($.status = "429") && {WEBHOOKS} }}'
    assert alarm["Threshold"] == 0 and 300 <= alarm["Period"] * alarm["EvaluationPeriods"] <= 900


def test_an_open_breaker_stays_an_alarm_as_long_as_it_is_open(template):
    longest = re.search(r"LONGEST: Duration = Duration::from_secs\((\d+)\)", breaker_code())
    assert properties(template, "OpenBreakersAlarm")["Period"] > int(longest[1])


# -------------------------------------------------------------------- alarms


def test_each_alarm_is_about_a_metric_that_there_is(template):
    ours = {f["MetricTransformations"][0]["MetricName"] for _, f in of_type(template, "AWS::Logs::MetricFilter")}
    for name, alarm in of_type(template, "AWS::CloudWatch::Alarm"):
        # ministack does not support metric math.
        assert "Metrics" not in alarm, name
        if alarm["Namespace"] == OURS:
            assert alarm["MetricName"] in ours and "Dimensions" not in alarm, name
            continue
        dimension, metrics = KNOWN[alarm["Namespace"]]
        assert alarm["MetricName"] in metrics.split(), name
        (given,) = alarm["Dimensions"]
        value = given["Value"]["Fn::If"][2] if "Fn::If" in given["Value"] else given["Value"]
        about = value["Ref"] if "Ref" in value else value["Fn::GetAtt"][0]
        assert given["Name"] == dimension and template["Resources"][about]["Type"] == ABOUT[dimension], name


def test_each_alarm_is_of_one_profile(template):
    profiles = {name: template["Resources"][name].get("Condition") for name, _ in of_type(template, "AWS::CloudWatch::Alarm")}
    assert profiles == {f"{name}Alarm": profile for profile, names in PROFILES.items() for name in names.split()}
    conditions = template["Conditions"]
    assert conditions["HasFullAlarms"] == {"Fn::Equals": [{"Ref": "AlarmProfile"}, "full"]}
    for larger, profile in (("HasFullAlarms", "core"), ("HasCoreAlarms", "minimal")):
        smaller = f"Has{profile.capitalize()}Alarms"
        equals = {"Fn::Equals": [{"Ref": "AlarmProfile"}, profile]}
        assert conditions[smaller] == {"Fn::Or": [{"Condition": larger}, equals]}
    assert template["Parameters"]["AlarmProfile"]["AllowedValues"] == ["none", "minimal", "core", "full"]


def test_each_failure_has_an_alarm_in_the_default_profile(template):
    assert template["Parameters"]["AlarmProfile"]["Default"] == "core"
    conditions = {name.removesuffix("Alarm"): template["Resources"][name]["Condition"] for name, _ in of_type(template, "AWS::CloudWatch::Alarm")}
    default = {name for name, condition in conditions.items() if condition in DEFAULT}
    assert set(FAILURES.values()) == default


def test_a_new_stack_without_events_raises_no_alarm(template):
    for name, alarm in of_type(template, "AWS::CloudWatch::Alarm"):
        # Without data, `breaching` raises an alarm.
        assert alarm["TreatMissingData"] in ("notBreaching", "ignore", "missing"), name


def test_an_email_address_gets_a_topic_that_only_alarms_of_the_stack_use(template):
    assert template["Parameters"]["AlarmEmail"]["Default"] == ""
    for name in ("AlarmTopic", "AlarmTopicPolicy"):
        assert template["Resources"][name]["Condition"] == "HasAlarmEmail"
    assert template["Conditions"]["HasAlarmEmail"] == {"Fn::Not": [{"Fn::Equals": [{"Ref": "AlarmEmail"}, ""]}]}
    [subscription] = properties(template, "AlarmTopic")["Subscription"]
    assert subscription == {"Protocol": "email", "Endpoint": {"Ref": "AlarmEmail"}}
    policy = properties(template, "AlarmTopicPolicy")
    assert policy["Topics"] == [{"Ref": "AlarmTopic"}]
    allow, deny = policy["PolicyDocument"]["Statement"]
    assert (allow["Effect"], allow["Action"]) == ("Allow", "sns:Publish")
    assert allow["Principal"] == {"Service": "cloudwatch.amazonaws.com"} and allow["Resource"] == {"Ref": "AlarmTopic"}
    assert allow["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    assert allow["Condition"]["ArnLike"]["aws:SourceArn"]["Fn::Sub"].endswith(":alarm:${AWS::StackName}-*")
    assert deny["Effect"] == "Deny" and deny["Condition"] == {"Bool": {"aws:SecureTransport": False}}


def test_each_alarm_tells_somebody_and_ends_by_itself(template):
    nothing = {"Ref": "AWS::NoValue"}
    told = [
        {"Fn::If": ["HasAlarmEmail", {"Ref": "AlarmTopic"}, nothing]},
        {"Fn::If": ["HasAlarmTopic", {"Ref": "AlarmTopicArn"}, nothing]},
    ]
    missing = {"UnhealthyAlarm": "ignore", "HeartbeatAlarm": "missing"}
    for name, alarm in of_type(template, "AWS::CloudWatch::Alarm"):
        assert alarm["AlarmActions"] == alarm["OKActions"] == told, name
        assert alarm["TreatMissingData"] == missing.get(name, "notBreaching"), name
        below = name == "HeartbeatAlarm"
        assert alarm["ComparisonOperator"] == ("LessThanThreshold" if below else "GreaterThanThreshold"), name
        assert ("Statistic" in alarm) != ("ExtendedStatistic" in alarm), name
        assert alarm["Period"] % 60 == 0 and alarm["Period"] * alarm["EvaluationPeriods"] <= 7 * DAY, name
        # CloudWatch rejects more than a day of periods that are shorter than an hour.
        assert alarm["Period"] >= 3600 or alarm["Period"] * alarm["EvaluationPeriods"] <= DAY, name
        assert alarm.get("DatapointsToAlarm", 1) <= alarm["EvaluationPeriods"], name


def test_a_flood_is_told_of_before_senders_are_refused(template):
    parameters = template["Parameters"]
    let_through = 60 * parameters["IngressRateLimit"]["Default"]
    assert 0.5 * let_through < parameters["FloodAlarmRequests"]["Default"] < let_through
    assert properties(template, "FloodAlarm")["Threshold"] == {"Ref": "FloodAlarmRequests"}


def test_the_dashboard_shows_metrics_that_there_are(template):
    assert template["Resources"]["Overview"]["Condition"] == "HasDashboard"
    body = json.loads(properties(template, "Overview")["DashboardBody"]["Fn::Sub"])
    ours = {f["MetricTransformations"][0]["MetricName"] for _, f in of_type(template, "AWS::Logs::MetricFilter")}
    for widget in body["widgets"]:
        for namespace, metric, *about in widget["properties"]["metrics"]:
            if namespace == OURS["Fn::Sub"]:
                assert metric in ours and not about
                continue
            dimension, metrics = KNOWN[namespace]
            assert metric in metrics.split() and about[0] == dimension
            resource = re.fullmatch(r"\$\{(\w+)(\.QueueName)?\}", about[1])[1]
            assert template["Resources"][resource]["Type"] == ABOUT[dimension]


# -------------------------------------------------------------------- runbook


def test_the_runbook_has_a_paragraph_for_each_alarm(template):
    paragraphs = dict(re.findall(r"^### (\w+)\n(.*?)(?=^#|\Z)", RUNBOOK, re.M | re.S))
    assert paragraphs.keys() == {name for name, _ in of_type(template, "AWS::CloudWatch::Alarm")}
    for name, text in paragraphs.items():
        commands = re.findall(r"^webhookctl ([a-z][a-z -]*?)(?= +[-#<\[]| *$)", text, re.M)
        assert len(commands) >= 3, f"{name}: {commands}"
        for command in commands:
            assert is_verb(command), f"{name}: unknown command {command!r} of webhookctl"
        assert "\nThe problem is over when " in text, name


def test_each_alarm_names_the_first_command_to_run(template):
    for name, alarm in of_type(template, "AWS::CloudWatch::Alarm"):
        commands = re.findall(r"Run `webhookctl ([^`]+)`", alarm["AlarmDescription"])
        assert commands, name
        for command in commands:
            assert is_verb(command.split(" --")[0]), f"{name}: unknown command {command!r} of webhookctl"


# -------------------------------------------------------------------- help


def is_verb(command):
    """Returns whether a command begins with a verb of webhookctl. Arguments may follow."""
    words = command.split()
    return any(" ".join(words[:count]) in VERBS for count in range(1, len(words) + 1))


def code(group):
    files = (file for folder in CODE[group] for file in sorted((ROOT / folder).rglob("*.rs")))
    return "".join(file.read_text() for file in files)


def is_logged(field, group):
    """Returns whether a line that LogLevel cannot hide has this field: at WARN, ERROR or a variable level, and
    for backup-sync also at INFO."""
    levels = r"warn|error|\$level" + ("|info" if group == "BackupSyncLogs" else "")
    lines = re.findall(rf"tracing::(?:{levels})!\((.*?)\)(?:;|\n *\}};)", code(group), re.S)
    lines += re.findall(rf"tracing::(?:{levels})!\(([^;]*?)\n *\)\n", code(group), re.S)
    return any(re.search(rf"\b{field}\b\s*[=,]", line) for line in lines)


def breaker_code():
    return "".join(file.read_text() for file in sorted((ROOT / "shared/src").rglob("breaker*/*.rs"))) + (
        ROOT / "shared/src/delivery/breaker.rs"
    ).read_text()
