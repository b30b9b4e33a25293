"""Options that are off by default: parameters, a KMS key, a domain, gradual deployment."""

import json
import re

import pytest

from template_parts import FUNCTIONS, ROOT, TABLE, TEXT, all_statements, arn_of, of_type, parse, properties

NOTHING = {"Ref": "AWS::NoValue"}


@pytest.fixture
def template():
    return parse(TEXT)


def test_each_parameter_says_what_it_takes_and_is_content_with_its_default(template):
    for name, parameter in template["Parameters"].items():
        assert "Default" in parameter and parameter.get("Description"), name
        limits = {"AllowedValues", "AllowedPattern", "MinValue", "MaxValue"} & parameter.keys()
        assert limits and parameter.get("ConstraintDescription", "").endswith("."), name
        default = parameter["Default"]
        assert default in parameter.get("AllowedValues", [default]), name
        assert re.fullmatch(parameter.get("AllowedPattern", ".*"), str(default)), name
        if parameter["Type"] == "Number":
            assert parameter.get("MinValue", default) <= default <= parameter.get("MaxValue", default), name


def test_each_parameter_is_in_one_group_and_those_that_people_change_come_first(template):
    groups = template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    grouped = [name for group in groups for name in group["Parameters"]]
    assert sorted(grouped) == sorted(template["Parameters"])
    # `sam deploy --guided` asks in the order of the template, and the console in the order of the groups.
    first = groups[0]["Parameters"]
    assert len(first) <= 6 and list(template["Parameters"])[: len(first)] == first
    assert all(group["Label"]["default"] for group in groups)


def test_no_log_level_hides_what_metrics_are_made_of(template):
    assert template["Parameters"]["LogLevel"]["AllowedValues"] == ["DEBUG", "INFO", "WARN"]
    levels = {name: properties(template, name)["LoggingConfig"]["ApplicationLogLevel"] for name in FUNCTIONS}
    given = {"Ref": "LogLevel"}
    # The functions write no timestamp. Lambda treats such a line as INFO, whatever its level.
    # https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html
    assert ".without_time()" in (ROOT / "shared/src/aws/logs.rs").read_text()
    assert levels == dict.fromkeys(FUNCTIONS, {"Fn::If": ["LogsWarningsOnly", "INFO", given]})
    # So the function itself leaves lines out. The heartbeat of backup-sync is a line at INFO.
    filters = {name: properties(template, name)["Environment"]["Variables"].get("RUST_LOG") for name in FUNCTIONS}
    assert filters == dict.fromkeys(FUNCTIONS, given) | {"BackupSync": None}
    assert template["Conditions"]["LogsWarningsOnly"] == {"Fn::Equals": [given, "WARN"]}


def test_a_key_of_yours_covers_all_that_is_kept(template):
    def keyed(value):
        return {"Fn::If": ["HasKmsKey", value, NOTHING]}

    key = {"Ref": "KmsKeyArn"}
    table = properties(template, "Inbox")
    assert table["SSESpecification"] == keyed({"SSEEnabled": True, "SSEType": "KMS"})
    assert table["Replicas"][0]["SSESpecification"] == keyed({"KMSMasterKeyId": key})
    for name, queue in of_type(template, "AWS::SQS::Queue"):
        assert queue["KmsMasterKeyId"] == keyed(key), name
    for name, group in of_type(template, "AWS::Logs::LogGroup"):
        assert group["KmsKeyId"] == keyed(key), name
    for name in FUNCTIONS:
        assert properties(template, name)["KmsKeyArn"] == keyed(key), name
    (rule,) = properties(template, "Bodies")["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    condition, own, theirs = rule["Fn::If"]
    assert condition == "HasKmsKey" and own["BucketKeyEnabled"] is True
    assert own["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
    assert theirs["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


def test_under_a_name_of_yours_the_api_has_no_other(template):
    assert properties(template, "Api")["DisableExecuteApiEndpoint"] == {"Fn::If": ["HasDomain", True, False]}
    for name in ("Domain", "DomainMapping"):
        assert template["Resources"][name]["Condition"] == "HasDomain"
    assert template["Resources"]["DomainRecord"]["Condition"] == "HasRecord"
    (configuration,) = properties(template, "Domain")["DomainNameConfigurations"]
    assert configuration["SecurityPolicy"] == "TLS_1_2"
    assert configuration["CertificateArn"] == {"Ref": "CertificateArn"}
    rule = template["Rules"]["ADomainHasACertificate"]
    assert "CertificateArn" in json.dumps(rule["Assertions"]) and "DomainName" in json.dumps(rule["RuleCondition"])
    condition, named, other = template["Outputs"]["ApiUrl"]["Value"]["Fn::If"]
    assert (condition, named) == ("HasDomain", {"Fn::Sub": "https://${DomainName}"})
    assert other["Fn::If"][:2] == ["UsesHttpApi", {"Fn::GetAtt": ["Api", "ApiEndpoint"]}]


def test_a_function_url_takes_the_place_of_the_api(template):
    door = template["Parameters"]["FrontDoor"]
    assert (door["Default"], door["AllowedValues"]) == ("HttpApi", ["HttpApi", "FunctionUrl"])
    for condition, value in (("UsesHttpApi", "HttpApi"), ("UsesFunctionUrl", "FunctionUrl")):
        assert template["Conditions"][condition] == {"Fn::Equals": [{"Ref": "FrontDoor"}, value]}
    # With a URL, the stack has no part of the API.
    parts = {name for name, part in template["Resources"].items() if part["Type"].startswith("AWS::ApiGatewayV2::")}
    parts |= {"ApiLogs", "ApiMayInvokeCatcher", "GatewayErrorsMetric", "ThrottledRequestsMetric"}
    under = {name: template["Resources"][name]["Condition"] for name in parts}
    of_workers = dict.fromkeys(("WorkRoute", "WorkIntegration"), "HasWorkerApi")
    assert under == dict.fromkeys(parts, "UsesHttpApi") | {"Domain": "HasDomain", "DomainMapping": "HasDomain"} | of_workers
    for name, part in template["Resources"].items():
        if name != "Names" and part.get("Condition") in (None, "HasMinimalAlarms", "HasCoreAlarms", "HasFullAlarms", "IsGradual"):
            assert not re.search(r'"(Api|Stage|ApiLogs)"', json.dumps(part["Properties"])), name
    for condition in ("WatchesThrottling", "WatchesApi", "HasDashboard"):
        assert {"Condition": "UsesHttpApi"} in template["Conditions"][condition]["Fn::And"]
    rule = template["Rules"]["AFunctionUrlHasNoDomain"]
    assert rule["RuleCondition"] == {"Fn::Equals": [{"Ref": "FrontDoor"}, "FunctionUrl"]}
    excluded = [one["Assert"]["Fn::Equals"] for one in rule["Assertions"]]
    assert excluded == [[{"Ref": "DomainName"}, ""], [{"Ref": "Dashboard"}, "false"]]
    called = {"Fn::If": ["IsGradual", {"Fn::Sub": "${Catcher.Arn}:live"}, arn_of("Catcher")]}
    url = properties(template, "CatcherUrl")
    assert (url["AuthType"], url["InvokeMode"], url["TargetFunctionArn"]) == ("NONE", "BUFFERED", arn_of("Catcher"))
    # A URL needs both permissions, and only calls of the URL may use the second.
    granted = {properties(template, name)["Action"]: properties(template, name) for name in ("AnyoneMayCallUrl", "UrlMayInvokeCatcher")}
    assert granted["lambda:InvokeFunctionUrl"]["FunctionUrlAuthType"] == "NONE"
    assert granted["lambda:InvokeFunction"]["InvokedViaFunctionUrl"] is True
    for permission in granted.values():
        assert permission["FunctionName"] == called
    for name in ("CatcherUrl", "AnyoneMayCallUrl", "UrlMayInvokeCatcher"):
        assert template["Resources"][name]["Condition"] == "UsesFunctionUrl"
    reserved = properties(template, "Catcher")["ReservedConcurrentExecutions"]
    assert reserved == {"Fn::If": ["ReservesCatchers", {"Ref": "CatcherConcurrency"}, NOTHING]}
    assert template["Parameters"]["CatcherConcurrency"]["Default"] == 0


def test_another_table_takes_the_place_of_the_own_one_everywhere(template):
    assert template["Parameters"]["TableName"]["Default"] == ""
    # The own table stays in the stack, so that the parameter can be taken back.
    assert "Condition" not in template["Resources"]["Inbox"]
    for name in FUNCTIONS:
        assert properties(template, name)["Environment"]["Variables"]["MITT_TABLE"] == TABLE, name
    for role, _ in of_type(template, "AWS::IAM::Role"):
        for statement in all_statements(template, role):
            granted = statement["Fn::If"][1] if "Fn::If" in statement else statement
            if "dynamodb:" in json.dumps(granted["Action"]):
                assert granted["Resource"]["Fn::If"][0] == "UsesOtherTable", f"{role}: {granted['Sid']}"
    [dimension] = properties(template, "TableThrottlesAlarm")["Dimensions"]
    assert dimension["Value"] == template["Outputs"]["TableName"]["Value"] == TABLE


def test_the_stack_says_the_version_that_it_was_deployed_from(template):
    version = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    assert template["Outputs"]["Version"]["Value"] == version
    assert json.loads(properties(template, "Names")["Value"]["Fn::Sub"][0])["version"] == version
    for name in FUNCTIONS:
        assert properties(template, name)["Description"].endswith(f" Mitt {version}."), name


def test_requests_go_to_the_alias_that_a_gradual_deployment_moves(template):
    catcher = properties(template, "Catcher")
    assert catcher["AutoPublishAlias"] == "live"
    for name, part in (("CatcherIntegration", "IntegrationUri"), ("ApiMayInvokeCatcher", "FunctionName")):
        called = {"Fn::If": ["IsGradual", {"Fn::Sub": "${Catcher.Arn}:live"}, arn_of("Catcher")]}
        assert properties(template, name)[part] == called
        assert template["Resources"][name]["DependsOn"] == "CatcherAliaslive"
    assert properties(template, "CatcherUrl")["Qualifier"] == {"Fn::If": ["IsGradual", "live", NOTHING]}
    assert template["Resources"]["CatcherUrl"]["DependsOn"] == "CatcherAliaslive"
    # The other functions are invoked without an alias, which could otherwise point to an old version.
    assert not any("AutoPublishAlias" in properties(template, name) for name in ("Processor", "BackupSync"))


def test_a_new_version_is_checked_before_it_receives_requests(template):
    check = properties(template, "NewVersionCheck")

    assert properties(template, "Catcher")["DeploymentPreference"]["Hooks"] == {"PreTraffic": {"Ref": "NewVersionCheck"}}
    assert check["Environment"]["Variables"] == {"NEW_VERSION": {"Ref": "Catcher.Version"}}
    # It waits for the catcher, whose function times out after 10 s, or 30 s with a trial.
    assert check["Timeout"] >= 30
    assert {template["Resources"][name]["Condition"] for name in template["Resources"] if name.startswith("NewVersionCheck")} == {"IsGradual"}



def test_a_bad_catcher_is_taken_back_whatever_the_alarm_profile(template):
    preference = properties(template, "Catcher")["DeploymentPreference"]
    assert preference["Enabled"] == preference["Type"] == {"Ref": "GradualDeployment"}
    assert preference["Role"] == arn_of("DeploymentRole")
    assert template["Parameters"]["GradualDeployment"]["Default"] == "false"
    assert preference["Alarms"] == [{"Ref": "CatcherErrorsAlarm"}, {"Ref": "NewVersionErrorsAlarm"}]
    for alarm in preference["Alarms"]:
        name = template["Resources"][alarm["Ref"]]["Condition"]
        assert name == "IsGradual" or {"Condition": "IsGradual"} in template["Conditions"][name]["Fn::Or"]
        # The shift takes minutes, and a metric is a minute late: a second bad minute would be too late.
        judged = properties(template, alarm["Ref"])
        assert judged["Period"] == 60 and judged["EvaluationPeriods"] == 1 and judged["Threshold"] == 0
        # A dimension of the alias would be a circular dependency.
        assert "live" not in json.dumps(properties(template, alarm["Ref"]).get("Dimensions", []))
