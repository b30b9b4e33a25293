"""The gate accepts the template, and runs SAM itself. faults.py has the faults that it rejects."""

import json
import re

import pytest

import render
import template_gate


def test_the_template_can_be_deployed():
    assert template_gate.complaints(template_gate.TEMPLATE) == []


def test_the_gate_asks_sam_itself(tmp_path):
    broken = tmp_path / "template.yaml"
    broken.write_text(template_gate.TEMPLATE.read_text().replace("Timeout: 60", "TimeOut: 60", 1))

    assert "TimeOut" in " ".join(template_gate.sam_validate(broken))


def test_the_gate_refuses_an_alarm_that_is_not_there_when_it_is_waited_for(tmp_path):
    broken = tmp_path / "template.yaml"
    text = template_gate.TEMPLATE.read_text()
    broken.write_text(text.replace("Condition: WatchesCatcher", "Condition: HasCoreAlarms"))

    name = "gradual without alarms"
    found = template_gate.rendered_lint(broken, {name: template_gate.SETS[name]})

    assert any("CatcherErrorsAlarm" in line for line in found), found


def test_a_rollback_has_our_role_and_there_is_none_unless_asked_for():
    def deployment(values):
        resources = template_gate.expand(template_gate.TEMPLATE, values)["Resources"]
        found = [given["Properties"] for given in resources.values() if given["Type"].startswith("AWS::CodeDeploy::")]
        assert "CodeDeployServiceRole" not in resources
        return [given for given in found if "AlarmConfiguration" in given]

    assert deployment({}) == []
    (group,) = deployment({"GradualDeployment": "Linear10PercentEvery1Minute"})
    assert group["ServiceRoleArn"] == {"Fn::GetAtt": ["DeploymentRole", "Arn"]}
    assert len(group["AlarmConfiguration"]["Alarms"]) == 2
    assert "Linear10PercentEvery1Minute" in str(group["DeploymentConfigName"])


def test_what_is_off_by_default_is_judged_and_what_is_on():
    template = template_gate.expand(template_gate.TEMPLATE)
    seen = {name for one in template_gate.deployed(template_gate.TEMPLATE).values() for name in one["Resources"]}
    assert template["Resources"].keys() <= seen
    views = [render.View.of(template, values) for values in template_gate.SETS.values()]
    for condition in re.findall(r'"Fn::If": \["(\w+)"', json.dumps(template)):
        assert {view.holds({"Condition": condition}) for view in views} == {True, False}, condition


def test_what_is_off_is_not_rendered():
    template = {
        "Parameters": {"On": {"Default": "no"}, "Name": {}},
        "Conditions": {
            "IsOn": {"Fn::Equals": [{"Ref": "On"}, "yes"]},
            "IsOff": {"Fn::Not": [{"Condition": "IsOn"}]},
            "Both": {"Fn::And": [{"Condition": "IsOn"}, {"Condition": "IsOff"}]},
        },
        "Resources": {
            "A": {"Type": "T", "Condition": "IsOn"},
            "B": {"Type": "T", "Properties": {"p": {"Fn::If": ["IsOn", "x", {"Ref": "AWS::NoValue"}]}, "q": [1]}},
            "C": {"Type": "T", "Condition": "Both"},
        },
    }
    off = render.render(template)["Resources"]
    assert off == {"B": {"Type": "T", "Properties": {"q": [1]}}}
    on = render.render(template, {"On": "yes"})["Resources"]
    assert on == {"A": {"Type": "T"}, "B": {"Type": "T", "Properties": {"p": "x", "q": [1]}}}
    with pytest.raises(render.Unknown, match="Off"):
        render.render(template, {"Off": "yes"})
