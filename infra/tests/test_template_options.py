"""Options that are off by default: parameters, a KMS key, a domain, gradual deployment."""

import json
import re

import pytest

from template_parts import FUNCTIONS, TEXT, arn_of, of_type, parse, properties

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


def test_no_log_level_hides_what_metrics_are_made_of(template):
    assert template["Parameters"]["LogLevel"]["AllowedValues"] == ["DEBUG", "INFO", "WARN"]
    levels = {name: properties(template, name)["LoggingConfig"]["ApplicationLogLevel"] for name in FUNCTIONS}
    given = {"Ref": "LogLevel"}
    # The heartbeat is a line at INFO.
    assert levels == {
        "Catcher": given,
        "Processor": given,
        "LongProcessor": given,
        "BackupSync": {"Fn::If": ["LogsWarningsOnly", "INFO", given]},
    }
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
    url = {"Fn::If": ["HasDomain", {"Fn::Sub": "https://${DomainName}"}, {"Fn::GetAtt": ["Api", "ApiEndpoint"]}]}
    assert template["Outputs"]["ApiUrl"]["Value"] == url


def test_requests_go_to_the_alias_that_a_gradual_deployment_moves(template):
    catcher = properties(template, "Catcher")
    assert catcher["AutoPublishAlias"] == "live"
    for name, part in (("CatcherIntegration", "IntegrationUri"), ("ApiMayInvokeCatcher", "FunctionName")):
        called = {"Fn::If": ["IsGradual", {"Fn::Sub": "${Catcher.Arn}:live"}, arn_of("Catcher")]}
        assert properties(template, name)[part] == called
        assert template["Resources"][name]["DependsOn"] == "CatcherAliaslive"
    # The other functions are invoked without an alias, which could otherwise point to an old version.
    assert not any("AutoPublishAlias" in properties(template, name) for name in ("Processor", "BackupSync"))


def test_a_bad_catcher_is_taken_back_whatever_the_alarm_profile(template):
    preference = properties(template, "Catcher")["DeploymentPreference"]
    assert preference["Enabled"] == preference["Type"] == {"Ref": "GradualDeployment"}
    assert preference["Role"] == arn_of("DeploymentRole")
    assert template["Parameters"]["GradualDeployment"]["Default"] == "false"
    assert preference["Alarms"] == [{"Ref": "CatcherErrorsAlarm"}, {"Ref": "RefusedDeliveriesAlarm"}]
    for alarm in preference["Alarms"]:
        condition = template["Conditions"][template["Resources"][alarm["Ref"]]["Condition"]]
        assert {"Condition": "IsGradual"} in condition["Fn::Or"]
        # A dimension of the alias would be a circular dependency.
        assert "live" not in json.dumps(properties(template, alarm["Ref"]).get("Dimensions", []))
