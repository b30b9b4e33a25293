"""The parts of template.yaml agree with each other and with the code.

No linter checks this. Each test takes the parsed template, so that faults.py can also run it with a broken
one and expect a failure.
"""

import json
import re

import pytest

from template_parts import DAY, FUNCTIONS, ROOT, TABLE, TEXT, all_statements, arn_of, constant, keys, of_type, parse, properties, statements

RETENTION = (ROOT / "shared/src/sources/policy.rs").read_text()


@pytest.fixture
def template():
    return parse(TEXT)


# -------------------------------------------------------------------- time


def test_timeouts_fit_each_other(template):
    effect, lease = constant("EFFECT_TIMEOUT"), constant("LEASE")
    timeout = properties(template, "Processor")["Timeout"]
    visibility = properties(template, "WorkQueue")["VisibilityTimeout"]
    assert properties(template, "WorkQueueMapping")["MaximumBatchingWindowInSeconds"] == {"Ref": "BatchWindowSeconds"}
    window = template["Parameters"]["BatchWindowSeconds"]
    assert (window["MinValue"], window["Default"]) == (0, 0)
    assert effect + 10 <= lease <= timeout < visibility
    # Lambda recommends this: it retries throttled batches within one visibility timeout.
    assert visibility >= 6 * timeout + window["MaxValue"]
    assert effect == constant("ACTION_TIMEOUT") + constant("AFTER_ACTION")
    # The drain moves a backlog message in much less time.
    assert properties(template, "BacklogQueue")["VisibilityTimeout"] >= 60


def test_the_catcher_has_the_time_and_the_rights_of_a_trial_only_where_that_is_asked_for(template):
    assert template["Parameters"]["Trial"]["Default"] == "false"
    assert template["Conditions"]["HasTrial"] == {"Fn::Equals": [{"Ref": "Trial"}, "true"]}
    catcher, integration = properties(template, "Catcher"), properties(template, "CatcherIntegration")
    assert catcher["Timeout"] == {"Fn::If": ["HasTrial", 30, 10]}
    assert integration["TimeoutInMillis"] == {"Fn::If": ["HasTrial", 30000, 10000]}
    policies = properties(template, "CatcherRole")["Policies"]
    granted = policies[0]["PolicyDocument"]["Statement"]
    conditional = {s["Fn::If"][1]["Sid"]: s["Fn::If"][0] for s in granted if "Fn::If" in s}
    for sid in ("RecordTrial", "AdoptFromTrial", "ReadRouteSecrets"):
        assert conditional[sid] == "HasTrial", sid


def test_a_long_action_has_a_queue_and_a_function_where_that_is_asked_for(template):
    assert template["Parameters"]["LongActions"]["Default"] == "false"
    assert template["Conditions"]["RunsLongActions"] == {"Fn::Equals": [{"Ref": "LongActions"}, "true"]}
    for name in ("LongQueue", "LongProcessor", "LongQueueMapping"):
        assert template["Resources"][name]["Condition"] == "RunsLongActions", name
    mapping = properties(template, "LongQueueMapping")
    assert mapping["EventSourceArn"] == arn_of("LongQueue")
    assert mapping["FunctionName"] == {"Ref": "LongProcessor"}
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    # An event that crashes the function must not interrupt another one.
    assert mapping["BatchSize"] == 1
    queue, function = properties(template, "LongQueue"), properties(template, "LongProcessor")
    longest = constant("LONGEST_ACTION") + constant("AFTER_ACTION") + constant("CLOCK_MARGIN")
    assert longest <= function["Timeout"] < queue["VisibilityTimeout"]
    assert constant("RENEW_EVERY") + constant("GIVE_UP") < constant("LONG_LEASE")
    # The function differs from the processor in its time and in its queue only.
    same = {"Timeout", "Description", "Environment"}
    processor = properties(template, "Processor")
    assert {k: v for k, v in function.items() if k not in same} == {k: v for k, v in processor.items() if k not in same}
    assert queue["RedrivePolicy"] == properties(template, "WorkQueue")["RedrivePolicy"]
    assert queue["MessageRetentionPeriod"] == properties(template, "WorkQueue")["MessageRetentionPeriod"]


def test_senders_hear_from_the_catcher_before_the_gateway_gives_up(template):
    gateway = properties(template, "CatcherIntegration")["TimeoutInMillis"]["Fn::If"]
    catcher = properties(template, "Catcher")["Timeout"]["Fn::If"]
    assert gateway[0] == catcher[0] == "HasTrial"
    for timeout, limit in zip(catcher[1:], gateway[1:], strict=True):
        assert timeout * 1000 <= limit <= 30_000


def test_a_message_lives_longer_where_it_waits_for_people(template):
    retention = properties(template, "WorkQueue")["MessageRetentionPeriod"]
    assert retention == properties(template, "BacklogQueue")["MessageRetentionPeriod"] == 4 * DAY
    for queue in ("WorkDeadLetters", "SpillQueue", "OpsDeadLetters"):
        assert properties(template, queue)["MessageRetentionPeriod"] == 14 * DAY > retention


def test_schedules_are_written_as_the_scheduler_reads_them(template):
    for name, task, every in [
        ("SyncSchedule", "sync", 15),
        ("CountSchedule", "count", 60),
    ]:
        schedule = properties(template, name)
        number, unit = re.fullmatch(r"rate\((\d+) (minute|hour)s?\)", schedule["ScheduleExpression"]).groups()
        assert schedule["ScheduleExpression"].endswith(f" {unit}{'' if number == '1' else 's'})")
        assert int(number) * (60 if unit == "hour" else 1) == every
        assert json.loads(schedule["Target"]["Input"]) == {"task": task}
        assert schedule["Target"]["Arn"] == arn_of("BackupSync")
        assert schedule["Target"]["RoleArn"] == arn_of("SchedulerRole")
        assert schedule["Target"]["DeadLetterConfig"]["Arn"] == arn_of("OpsDeadLetters")
        if task == "sync":
            assert every * 60 == constant("SYNC_EVERY")
        # The next run starts after one interval. So after this time, the start of a delayed run is not needed.
        assert schedule["Target"]["RetryPolicy"]["MaximumEventAgeInSeconds"] <= every * 60


def test_sweep_and_drain_come_as_often_as_the_stack_says_and_the_code_counts_on(template):
    every = template["Parameters"]["SweepEvery"]
    seconds = []
    for rate in every["AllowedValues"]:
        number, unit = re.fullmatch(r"rate\((\d+) (minutes?)\)", rate).groups()
        assert unit == ("minute" if number == "1" else "minutes")
        seconds.append(int(number) * 60)
    assert max(seconds) == constant("ROUND_EVERY")
    assert every["Default"] in every["AllowedValues"]
    for name, task in (("SweepSchedule", "sweep"), ("DrainSchedule", "drain")):
        schedule = properties(template, name)
        assert schedule["ScheduleExpression"] == {"Ref": "SweepEvery"}
        assert json.loads(schedule["Target"]["Input"]) == {"task": task}
        assert schedule["Target"]["Arn"] == arn_of("BackupSync")
        assert schedule["Target"]["RoleArn"] == arn_of("SchedulerRole")
        assert schedule["Target"]["DeadLetterConfig"]["Arn"] == arn_of("OpsDeadLetters")
        assert schedule["Target"]["RetryPolicy"]["MaximumEventAgeInSeconds"] <= min(seconds)
    # A run ends before the next one starts, or soon after. A run that Lambda stops loses no event.
    timeout = properties(template, "BackupSync")["Timeout"]
    assert constant("SWEEP") < constant("DRAIN") < constant("ROUND_EVERY") <= timeout
    # Each part of a run has its own deadline, which leaves the next part enough time to start and finish a call.
    assert constant("BACKUP_SYNC") == timeout
    grace = constant("GRACE")
    sweeping = [constant(name) for name in ("SWEEP", "SWEEP_KEYS", "SWEEP_HOLD", "LAST_WORDS", "BACKUP_SYNC")]
    asking = [constant(name) for name in ("ASKING", "WATCHING", "LAST_WORDS", "BACKUP_SYNC")]
    for parts in (sweeping, asking):
        assert all(earlier + grace <= later for earlier, later in zip(parts, parts[1:]))
    assert constant("DRAIN") + grace <= constant("LAST_WORDS")
    assert grace < constant("TURN") <= constant("SWEEP_KEYS") - constant("SWEEP") - grace
    # The lease of a killed sweep has expired when the next one starts.
    assert constant("SWEEP_LEASE") + 5 < min(seconds)


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


def test_the_stack_says_its_names_in_one_parameter(template):
    names = properties(template, "Names")
    assert names["Type"] == "String" and names["Name"] == {"Fn::Sub": "/${AWS::StackName}/names"}
    text, given = names["Value"]["Fn::Sub"]
    # A stack without long actions lacks two resources, and `${...}` cannot name a resource that does not exist.
    of_long = {"LongQueueUrl": "LongQueue", "LongProcessorName": "LongProcessor"}
    long = {name: {"Fn::If": ["RunsLongActions", {"Ref": resource}, ""]} for name, resource in of_long.items()}
    url, table = (template["Outputs"][output]["Value"] for output in ("ApiUrl", "TableName"))
    assert given == {"Url": url, "Table": table} | long and table == TABLE
    said = json.loads(text)
    # The limit of a free SSM parameter, with 100 bytes for each name of the stack.
    assert len(text) + 100 * len(said) < 4096
    # The functions read all parameters below their secret paths, so this parameter is outside them.
    assert not any(part in names["Name"]["Fn::Sub"] for part in ("ingress", "egress", "provider-api"))
    for name, value in said.items():
        for resource in re.findall(r"\$\{(\w+)(?:\.\w+)?\}", value):
            known = template["Resources"] | template["Parameters"]
            assert resource in known or resource in given, name


# -------------------------------------------------------------------- queues


def test_a_message_that_cannot_be_processed_becomes_a_dead_letter(template):
    for queue in ("WorkQueue", "BacklogQueue"):
        redrive = properties(template, queue)["RedrivePolicy"]
        assert redrive == {"deadLetterTargetArn": arn_of("WorkDeadLetters"), "maxReceiveCount": 10}


def test_what_is_spilled_outlasts_the_outage_and_does_not_go_unseen(template):
    spill = properties(template, "SpillQueue")
    # In an outage of a day, a message is received more than a thousand times without success.
    assert "RedrivePolicy" not in spill
    assert spill["MaximumMessageSize"] == 1024 * 1024
    # The code hides received messages for longer than a drain takes, and a run ends in time.
    assert constant("SPILL_HIDDEN") >= constant("DRAIN") + 50
    assert constant("DRAIN") + 50 < properties(template, "BackupSync")["Timeout"]
    for name, metric in (("SpilledEventsAlarm", "Visible"), ("HiddenSpilledEventsAlarm", "NotVisible")):
        alarm = properties(template, name)
        assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": {"Fn::GetAtt": ["SpillQueue", "QueueName"]}}]
        assert (alarm["MetricName"], alarm["Threshold"]) == (f"ApproximateNumberOfMessages{metric}", 0)


def test_one_bad_record_does_not_take_its_batch_along(template):
    mapping = properties(template, "WorkQueueMapping")
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BatchSize"] == 10
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": {"Ref": "ProcessorConcurrency"}}
    concurrency = template["Parameters"]["ProcessorConcurrency"]
    # Lambda accepts no less. With the smallest value, an account with ten executions has some for the catcher.
    assert (concurrency["MinValue"], concurrency["Default"]) == (2, 5)
    assert mapping["EventSourceArn"] == arn_of("WorkQueue")
    assert mapping["FunctionName"] == {"Ref": "Processor"}


def test_one_queue_is_polled_and_no_more(template):
    mappings = [n for n, r in template["Resources"].items() if r["Type"] == "AWS::Lambda::EventSourceMapping" and "Condition" not in r]
    assert mappings == ["WorkQueueMapping"]


def test_queues_are_encrypted(template):
    for name, queue in of_type(template, "AWS::SQS::Queue"):
        assert queue["SqsManagedSseEnabled"] == {"Fn::If": ["HasKmsKey", {"Ref": "AWS::NoValue"}, True]}, name
        assert queue["KmsMasterKeyId"] == {"Fn::If": ["HasKmsKey", {"Ref": "KmsKeyArn"}, {"Ref": "AWS::NoValue"}]}, name


def test_no_other_queue_gives_up_its_messages_into_ours(template):
    queues = dict(of_type(template, "AWS::SQS::Queue"))
    # A policy of this queue cannot name its source queues, because they refer to it.
    del queues["WorkDeadLetters"]
    for name, queue in queues.items():
        assert queue.get("RedriveAllowPolicy") == {"redrivePermission": "denyAll"}, name


def test_queues_are_spoken_to_over_tls_only(template):
    policy = properties(template, "QueuesPolicy")
    queues = [queue["Fn::If"][1] if "Fn::If" in queue else queue for queue in policy["Queues"]]
    assert {queue["Ref"] for queue in queues} == {name for name, _ in of_type(template, "AWS::SQS::Queue")}
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Action"], statement["Principal"]) == ("Deny", "sqs:*", "*")
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": False}}


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
    recovery = replica["PointInTimeRecoverySpecification"]
    assert recovery == {"PointInTimeRecoveryEnabled": True, "RecoveryPeriodInDays": 35}
    assert replica["DeletionProtectionEnabled"] == {"Ref": "DeletionProtection"}
    # If the first deployment fails, CloudFormation deletes the table. DynamoDB would reject it.
    assert template["Parameters"]["DeletionProtection"]["Default"] == "false"


def test_the_table_has_a_ceiling_for_what_it_costs(template):
    table = properties(template, "Inbox")
    assert table["WriteOnDemandThroughputSettings"] == {"MaxWriteRequestUnits": {"Ref": "MaxWriteUnits"}}
    (replica,) = table["Replicas"]
    assert replica["ReadOnDemandThroughputSettings"] == {"MaxReadRequestUnits": {"Ref": "MaxReadUnits"}}
    rate = template["Parameters"]["IngressRateLimit"]["Default"]
    # The table has enough write units for the rate limit of the API, at 5 units for each event, and more
    # for large bodies.
    assert 7 * rate <= template["Parameters"]["MaxWriteUnits"]["Default"] <= 100 * rate


def test_what_is_stored_outlives_the_stack(template):
    # The spill queue contains acknowledged events that exist nowhere else.
    for name in ("Inbox", "Bodies", "SpillQueue"):
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
    # No rule without a tag: it would also delete the bodies of open events.
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
        # CodeUri is the whole workspace. With only the folder of the function, SAM would miss a change of the shared crate.
        assert function["CodeUri"] == "."
        assert function["Architectures"] == [{"Ref": "Architecture"}]


def test_each_function_has_its_own_role_and_secrets(template):
    paths = {"Catcher": "ingress", "Processor": "egress", "LongProcessor": "egress", "BackupSync": "provider-api"}
    processors = ("Processor", "LongProcessor")
    for name, path in paths.items():
        function = properties(template, name)
        # Both processors do the same for different events.
        role = "ProcessorRole" if name in processors else f"{name}Role"
        assert function["Role"] == arn_of(role)
        variables = function["Environment"]["Variables"]
        assert variables == {
            "MITT_TABLE": TABLE,
            "MITT_QUEUE_URL": {"Ref": "LongQueue" if name == "LongProcessor" else "WorkQueue"},
            "MITT_SPILL_QUEUE_URL": {"Ref": "SpillQueue"},
            "MITT_BODY_BUCKET": {"Ref": "Bodies"},
            "MITT_SECRETS_PATH": {"Fn::Sub": "/${AWS::StackName}/" + path},
            "MITT_SOURCES_FILE": {"Ref": "SourcesFile"},
            "MITT_SOURCES": {"Ref": "Sources"},
            "MITT_ALLOWED_HOSTS": {"Ref": "AllowedHosts"},
            # A deployed function calls AWS.
            "MITT_ENDPOINTS": "",
        } | (
            # Backup-sync writes each line from INFO on, and reports the events that wait too long.
            {"MITT_WAITING_MINUTES": {"Ref": "WaitingMinutes"}} if name == "BackupSync" else {"RUST_LOG": {"Ref": "LogLevel"}}
        ) | (
            # Requests that waited for a certificate are verified here.
            {"MITT_INGRESS_PATH": {"Fn::Sub": "/${AWS::StackName}/ingress"}} if name == "BackupSync" else {}
        ) | (
            # Only functions that verify need the secrets of senders.
            {} if name in processors else {"MITT_SECRETS_MANAGER_PREFIX": {"Ref": "SecretsManagerPrefix"}}
        ) | (
            # Signs requests for the route of a trial, and waits for its answer.
            {
                "MITT_EGRESS_PATH": {"Fn::If": ["HasTrial", {"Fn::Sub": "/${AWS::StackName}/egress"}, ""]},
                "MITT_ANSWER_TIMEOUT": {"Fn::If": ["HasTrial", "30", "10"]},
            }
            if name == "Catcher" else {}
        ) | (
            {"MITT_LONG_ACTIONS": "true"} if name == "LongProcessor" else {}
        ) | (
            {"MITT_LONG_QUEUE_URL": {"Fn::If": ["RunsLongActions", {"Ref": "LongQueue"}, {"Ref": "AWS::NoValue"}]}}
            if name in ("Processor", "BackupSync") else {}
        ) | (
            # The catcher only sends messages for new events, and a long action may wait.
            {} if name in ("Catcher", "LongProcessor") else {"MITT_BACKLOG_QUEUE_URL": {"Ref": "BacklogQueue"}}
        )
        granted = [s for s in statements(template, role) if s["Sid"] == "ReadSecrets"]
        assert [r["Fn::Sub"].split("/", 1)[1] for r in granted[0]["Resource"]] == [
            "${AWS::StackName}/" + read + below
            for read in ([path, "ingress"] if name == "BackupSync" else [path])
            for below in ("", "/*")
        ]
    granted = [s for s in statements(template, "CatcherRole") if s["Sid"] == "ReadRouteSecrets"]
    assert [r["Fn::Sub"].split("/", 1)[1] for r in granted[0]["Resource"]] == [
        "${AWS::StackName}/egress" + below for below in ("", "/*")
    ]


def test_a_sender_sets_a_secret_only_where_that_is_asked_for_and_never_another_ones(template):
    granted = [s for s in all_statements(template, "CatcherRole") if "ssm:PutParameter" in json.dumps(s)]
    (guarded,) = [s for s in granted if "Fn::If" in s and s["Fn::If"][0] == "HandshakesSetSecrets"]
    assert granted == [guarded]
    assert guarded["Fn::If"][2] == {"Ref": "AWS::NoValue"}
    assert template["Parameters"]["AllowArming"]["Default"] == "false"
    statement = guarded["Fn::If"][1]
    assert statement["Action"] == "ssm:PutParameter"
    assert statement["Resource"]["Fn::Sub"].endswith("parameter/${AWS::StackName}/ingress/*/handshake")
    assert statement["Condition"] == {"StringEquals": {"ssm:Overwrite": "false"}}


def test_no_secret_can_be_given_to_the_template(template):
    secret = re.compile(r"secret|password|token|api_?key|private", re.I)
    # These names are locations of secrets, not secrets.
    places = re.compile("MITT_SECRETS_PATH|MITT_SECRETS_MANAGER_PREFIX|SecretsManagerPrefix")
    for name, parameter in template["Parameters"].items():
        assert not secret.search(places.sub("", name)) and "NoEcho" not in parameter, name
    for name, function in of_type(template, "AWS::Serverless::Function"):
        for variable in function["Environment"]["Variables"]:
            assert not secret.search(places.sub("", variable)), f"{name}: {variable}"
    assert "{{resolve:" not in json.dumps(template), "a resolved secret would be in the environment"


def test_every_log_is_ours_and_ends(template):
    for name, group in of_type(template, "AWS::Logs::LogGroup"):
        assert group.get("RetentionInDays") == {"Ref": "LogRetentionDays"}, name
    for name in FUNCTIONS:
        # The metrics of the processor count the lines of both of its functions.
        name_of_logs = f"{name.removeprefix('Long')}Logs"
        assert properties(template, name)["LoggingConfig"]["LogGroup"] == {"Ref": name_of_logs}
        assert template["Resources"][name_of_logs]["Type"] == "AWS::Logs::LogGroup"


# -------------------------------------------------------------------- HTTP


def test_the_api_has_the_routes_of_sources_and_nothing_else(template):
    assert properties(template, "Api")["ProtocolType"] == "HTTP"
    routes = [route for name, route in of_type(template, "AWS::ApiGatewayV2::Route") if name != "WorkRoute"]
    assert {r["RouteKey"] for r in routes} == {
        f"{m} /in/{{source}}{path}" for m in ("POST", "GET", "HEAD") for path in ("", "/{path+}")
    }
    assert {r["Target"]["Fn::Sub"] for r in routes} == {"integrations/${CatcherIntegration}"}
    integration = properties(template, "CatcherIntegration")
    assert integration["PayloadFormatVersion"] == "2.0"
    assert integration["IntegrationUri"] == {"Fn::If": ["IsGradual", {"Fn::Sub": "${Catcher.Arn}:live"}, arn_of("Catcher")]}
    stage = properties(template, "Stage")
    assert (stage["StageName"], stage["AutoDeploy"]) == ("$default", True)
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] == {"Ref": "IngressRateLimit"}
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] == {"Ref": "IngressBurstLimit"}


def test_workers_have_a_signed_route_only_where_that_is_asked_for(template):
    assert template["Parameters"]["WorkerApi"]["Default"] == "false"
    wanted, api = template["Conditions"]["HasWorkerApi"]["Fn::And"]
    assert wanted == {"Fn::Equals": [{"Ref": "WorkerApi"}, "true"]} and api == {"Condition": "UsesHttpApi"}
    for name in ("WorkRoute", "WorkIntegration", "ApiMayInvokeProcessor"):
        assert template["Resources"][name]["Condition"] == "HasWorkerApi", name
    route, integration = properties(template, "WorkRoute"), properties(template, "WorkIntegration")
    # The policies of workers name this path, and the processor reads the queue and the operation from it.
    assert route["RouteKey"] == "POST /work/{queue}/{op}"
    assert route["AuthorizationType"] == "AWS_IAM"
    assert route["Target"] == {"Fn::Sub": "integrations/${WorkIntegration}"}
    assert integration["IntegrationUri"] == arn_of("Processor")
    assert integration["PayloadFormatVersion"] == "2.0"
    # API Gateway waits for 30 s at most, and the function has twice this time.
    assert integration["TimeoutInMillis"] == 30000 < properties(template, "Processor")["Timeout"] * 1000
    # A throttled worker must not use up the rate of the senders, and the other way round.
    condition, settings, _ = properties(template, "Stage")["RouteSettings"]["Fn::If"]
    limits = dict.fromkeys(("ThrottlingRateLimit", "ThrottlingBurstLimit"), {"Ref": "WorkRateLimit"})
    assert (condition, settings) == ("HasWorkerApi", {route["RouteKey"]: limits})
    # CloudFormation must create the route before its settings.
    assert {"workRoute": {"Ref": "WorkRoute"}} in properties(template, "Stage")["StageVariables"]["Fn::If"]
    permission = properties(template, "ApiMayInvokeProcessor")
    assert permission["SourceArn"]["Fn::Sub"].endswith(":${Api}/*/POST/work/*")
    assert permission["FunctionName"] == integration["IntegrationUri"]
    granted = properties(template, "ProcessorRole")["Policies"][0]["PolicyDocument"]["Statement"]
    conditional = {s["Fn::If"][1]["Sid"]: s["Fn::If"][0] for s in granted if "Fn::If" in s}
    assert conditional["FindWork"] == "HasWorkerApi"
    [rule] = template["Rules"]["TheWorkerApiIsARouteOfTheHttpApi"]["Assertions"]
    assert rule["Assert"] == {"Fn::Equals": [{"Ref": "FrontDoor"}, "HttpApi"]}


def test_the_access_log_holds_nothing_that_a_sender_chose(template):
    log = properties(template, "Stage")["AccessLogSettings"]
    assert log["DestinationArn"] == arn_of("ApiLogs")
    assert set(re.findall(r"\$context\.([\w.]+)", log["Format"])) <= {
        "requestId", "requestTimeEpoch", "identity.sourceIp", "routeKey", "status", "responseLength",
        "responseLatency", "integrationLatency", "integrationErrorMessage", "error.message",
    }  # fmt: skip
    assert "$context.requestId" in log["Format"]
    json.loads(log["Format"])
