"""infra/edge.yaml: CloudFront and WAF in front of the inbox must neither change a delivery nor block a valid one."""

import json

import pytest

import template_gate
from template_parts import ROOT, TEXT, of_type, parse, properties

EDGE = ROOT / "infra/edge.yaml"


@pytest.fixture
def edge():
    return parse(EDGE.read_text())


def test_it_can_be_deployed_where_cloudfront_wants_it():
    assert template_gate.lint(parse(EDGE.read_text()), regions=("us-east-1",)) == []


def test_a_delivery_arrives_as_it_was_sent(edge):
    front = properties(edge, "Front")["DistributionConfig"]
    way = front["DefaultCacheBehavior"]
    assert way["Compress"] is False and way["ViewerProtocolPolicy"] == "https-only"
    assert {"GET", "HEAD", "POST"} <= set(way["AllowedMethods"])
    # CachingDisabled, AllViewerExceptHostHeader.
    assert way["CachePolicyId"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
    assert way["OriginRequestPolicyId"] == "b689b0a8-53d0-40ab-baf2-68738e2966ac"
    (origin,) = front["Origins"]
    assert origin["CustomOriginConfig"]["OriginProtocolPolicy"] == "https-only"
    assert origin["ConnectionAttempts"] == 1, "a second attempt would be a second delivery"
    # The timeout of the catcher in a stack with Trial.
    trial = properties(parse(TEXT), "Catcher")["Timeout"]["Fn::If"][1]
    assert trial < origin["CustomOriginConfig"]["OriginReadTimeout"] <= 60
    assert front["ViewerCertificate"]["MinimumProtocolVersion"] == "TLSv1.2_2021"


def test_nothing_but_deliveries_is_let_in_and_no_body_is_judged(edge):
    filter = properties(edge, "Filter")
    assert filter["Scope"] == "CLOUDFRONT" and filter["DefaultAction"] == {"Block": {}}
    allowed = [rule for rule in filter["Rules"] if "Allow" in rule.get("Action", {})]
    (deliveries,) = allowed
    assert deliveries["Statement"]["ByteMatchStatement"]["SearchString"] == "/in/"
    # The first matching rule decides, so the blocking rules come before the allowing rule.
    assert deliveries["Priority"] == max(rule["Priority"] for rule in filter["Rules"])
    said = json.dumps(filter)
    assert "CommonRuleSet" not in said and '"Body"' not in said
    rated = [rule for rule in filter["Rules"] if "RateBasedStatement" in rule["Statement"]]
    assert rated[0]["Statement"]["RateBasedStatement"]["Limit"] == {"Ref": "RequestsPerAddress"}
    assert properties(edge, "Front")["DistributionConfig"]["WebACLId"] == {"Fn::GetAtt": ["Filter", "Arn"]}


def test_an_address_may_send_as_much_as_the_inbox_accepts(edge):
    accepted = parse(TEXT)["Parameters"]["IngressRateLimit"]["Default"]
    assert edge["Parameters"]["RequestsPerAddress"]["Default"] >= 300 * accepted


def test_suspicious_addresses_are_only_counted_until_someone_decides(edge):
    mode = edge["Parameters"]["Mode"]
    assert (mode["Default"], mode["AllowedValues"]) == ("Count", ["Count", "Block"])
    assert edge["Conditions"]["Blocks"] == {"Fn::Equals": [{"Ref": "Mode"}, "Block"]}
    rules = {rule["Name"]: rule for rule in properties(edge, "Filter")["Rules"]}
    decided = {"floods": ("Action", {"Block": {}}), "known-bad-addresses": ("OverrideAction", {"None": {}})}
    for name, (action, blocks) in decided.items():
        assert rules[name][action] == {"Fn::If": ["Blocks", blocks, {"Count": {}}]}, name
    assert all(rule["VisibilityConfig"]["SampledRequestsEnabled"] is True for rule in rules.values())


def test_what_is_counted_or_blocked_raises_an_alarm(edge):
    filter = properties(edge, "Filter")
    acl = filter["VisibilityConfig"]["MetricName"]
    metrics = {rule["Name"]: rule["VisibilityConfig"]["MetricName"] for rule in filter["Rules"]}
    watched = {}
    for name, alarm in of_type(edge, "AWS::CloudWatch::Alarm"):
        assert alarm["Namespace"] == "AWS/WAFV2", name
        assert alarm["MetricName"] == {"Fn::If": ["Blocks", "BlockedRequests", "CountedRequests"]}, name
        # Web ACLs of CloudFront have no dimension for the Region.
        # https://docs.aws.amazon.com/waf/latest/developerguide/waf-metrics.html
        given = {dimension["Name"]: dimension["Value"] for dimension in alarm["Dimensions"]}
        assert given.keys() == {"WebACL", "Rule"} and given["WebACL"] == acl, name
        assert alarm["TreatMissingData"] == "notBreaching" and alarm["AlarmActions"] == alarm["OKActions"], name
        watched[name] = given["Rule"]
    rules = {"FloodsAlarm": "floods", "KnownBadAddressesAlarm": "known-bad-addresses"}
    assert watched == {alarm: metrics[rule] for alarm, rule in rules.items()}


def test_two_of_them_fit_into_an_account_and_no_secret_is_given(edge):
    for name, acl in of_type(edge, "AWS::WAFv2::WebACL"):
        assert "AWS::StackName" in json.dumps(acl["Name"]), name
    for name, parameter in edge["Parameters"].items():
        assert "NoEcho" not in parameter and parameter["ConstraintDescription"].endswith("."), name


BROKEN = [
    (test_a_delivery_arrives_as_it_was_sent, "OriginReadTimeout: 35", "OriginReadTimeout: 15"),
    (test_an_address_may_send_as_much_as_the_inbox_accepts, "Default: 15000", "Default: 2000"),
    (test_suspicious_addresses_are_only_counted_until_someone_decides, "Default: Count", "Default: Block"),
    (test_suspicious_addresses_are_only_counted_until_someone_decides, "Action: !If [Blocks, { Block: {} }, { Count: {} }]", "Action: { Block: {} }"),
    (test_what_is_counted_or_blocked_raises_an_alarm, "Value: !Sub '${AWS::StackName}-floods'", "Value: ALL"),
    (test_what_is_counted_or_blocked_raises_an_alarm, "!If [Blocks, BlockedRequests, CountedRequests]", "AllowedRequests"),
    (test_a_delivery_arrives_as_it_was_sent, "Compress: false", "Compress: true"),
    (test_a_delivery_arrives_as_it_was_sent, "ConnectionAttempts: 1", "ConnectionAttempts: 3"),
    (test_a_delivery_arrives_as_it_was_sent, "b689b0a8-53d0-40ab-baf2-68738e2966ac", "216adef6-5c7f-47e4-b989-5492eafa07d3"),
    (test_nothing_but_deliveries_is_let_in_and_no_body_is_judged, "DefaultAction: { Block: {} }", "DefaultAction: { Allow: {} }"),
    (test_nothing_but_deliveries_is_let_in_and_no_body_is_judged, "Priority: 2", "Priority: -1"),
    (test_nothing_but_deliveries_is_let_in_and_no_body_is_judged, "AWSManagedRulesAmazonIpReputationList", "AWSManagedRulesCommonRuleSet"),
    (test_two_of_them_fit_into_an_account_and_no_secret_is_given, "Name: !Sub ${AWS::StackName}-filter\n      Scope", "Name: mitt-filter\n      Scope"),
]  # fmt: skip


@pytest.mark.parametrize("test, sound, fault", BROKEN)
def test_each_of_these_fails_when_it_should(test, sound, fault):
    text = EDGE.read_text()
    assert sound in text, "edge.yaml no longer contains this text; update BROKEN"
    with pytest.raises(AssertionError):
        test(parse(text.replace(sound, fault, 1)))
