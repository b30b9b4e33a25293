"""Reads template.yaml for the tests, and the code that it must agree with."""

import re
from pathlib import Path

import yaml
from samcli.yamlhelper import intrinsics_multi_constructor

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "template.yaml").read_text()
TIMING = (ROOT / "shared/src/base/timing.rs").read_text()
DAY = 24 * 3600
FUNCTIONS = {"Catcher": "catcher", "Processor": "processor", "LongProcessor": "processor", "BackupSync": "backup-sync"}


class Loader(yaml.CSafeLoader):
    """Reads `!Ref` and similar tags as SAM does, with the faster parser written in C."""


Loader.add_multi_constructor("!", intrinsics_multi_constructor)


def parse(text):
    return yaml.load(text, Loader)


def constant(name: str) -> int:
    """Returns the value of a constant in the code, in seconds."""
    found = re.search(rf"^pub const {name}: Duration = Duration::from_secs\((\d+)\);$", TIMING, re.M)
    assert found, f"shared/src/base/timing.rs has no constant {name} in seconds"
    return int(found[1])


# The table that the functions use: the own one, unless the parameter TableName names another.
TABLE = {"Fn::If": ["UsesOtherTable", {"Ref": "TableName"}, {"Ref": "Inbox"}]}


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
    """Returns all statements of a role, also those that depend on parameters."""
    for statement in all_statements(template, role):
        yield statement["Fn::If"][1] if "Fn::If" in statement else statement


def targets(statement):
    """Returns the resources of a statement: names in the template, or the service of a path of secrets."""
    return {target(resource) for resource in listed(statement["Resource"])}


def resources(statement):
    """Returns the resources of a statement, for both values of each condition."""
    found = listed(statement["Resource"])
    return [part for one in found for part in (one["Fn::If"][1:] if "Fn::If" in one else [one])]


def target(resource):
    if "Fn::If" in resource:
        condition, other, own = resource["Fn::If"]
        name = target(own)
        # The parts of another table are the same as those of the own one.
        place = other["Fn::Sub"].removeprefix("arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/")
        assert condition == "UsesOtherTable" and place == name.replace("Inbox", "${TableName}"), resource
        return name
    if resource == "*" or "Ref" in resource:
        return resource if resource == "*" else resource["Ref"]
    if "Fn::GetAtt" in resource:
        return resource["Fn::GetAtt"][0]
    text = resource["Fn::Sub"]
    for service in ("ssm", "secretsmanager"):
        if f":{service}:" in text:
            return service
    return re.sub(r"/\*$", "", re.sub(r"^\$\{(\w+)\.Arn\}", r"\1", text))


def listed(value):
    return value if isinstance(value, list) else [value]
