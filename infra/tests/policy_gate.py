"""Rejects permissions that do not exist, match no resource, or are wider than necessary.

    python infra/tests/policy_gate.py [FILE ...]

The gate reads the policies of the roles in template.yaml, and the policies for people in infra/policies. Parliament
(https://github.com/duo-labs/parliament) knows which condition keys and resources an action supports. No other check
finds a misspelt key, which IAM treats as a key that never matches. Parliament's lists are from early 2025, so cfn-lint
checks the names of actions (see template_gate.py). infra/accepted.yaml lists the accepted findings.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from accepted import Finding, unaccepted
from template_gate import ACCOUNT, REGION, TEMPLATE, deployed

ROOT = Path(__file__).parents[2]
PARLIAMENT = ROOT / ".venv/scanners/bin/parliament"
POLICIES = sorted((ROOT / "infra/policies").glob("*.json"))

# Example values for names in ${…} of infra/policies, and for pseudo parameters of a template.
EXAMPLES = {
    "Partition": "aws",
    "Region": REGION,
    "Account": ACCOUNT,
    "AccountId": ACCOUNT,
    "StackName": "mitt",
    "URLSuffix": "amazonaws.com",
    "SecretsPath": "/mitt",
}

# The ARN that replaces `!GetAtt X.Arn`, by the type of the resource.
ARNS = {
    "AWS::DynamoDB::GlobalTable": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/NAME",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/NAME",
    "AWS::Lambda::Function": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:NAME",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/NAME:*",
    "AWS::S3::Bucket": "arn:aws:s3:::NAME",
    "AWS::SQS::Queue": f"arn:aws:sqs:{REGION}:{ACCOUNT}:NAME",
}


class Unknown(Exception):
    """A part of a policy that this script cannot read."""


def complaints(template: Path, files: list[Path]) -> list[str]:
    """Returns a sentence for each finding in the policies that is not accepted."""
    policies = of_template(template) | {path.stem: of_file(path) for path in files}
    return unaccepted("parliament", [*parliament(policies), *wide(policies)])


# -------------------------------------------------------------------- reading


def of_template(path: Path) -> dict[str, dict]:
    """Returns the policies of the roles and for people, by resource, policy and set of parameters."""
    found = {}
    for name, rendered in deployed(path).items():
        for place, resource in rendered["Resources"].items():
            properties = resource["Properties"]
            if resource["Type"] == "AWS::IAM::ManagedPolicy":
                found[f"{place}@{name}"] = spoken(properties["PolicyDocument"], rendered)
            for policy in properties.get("Policies", []) if resource["Type"] == "AWS::IAM::Role" else []:
                found[f"{place}-{policy['PolicyName']}@{name}"] = spoken(policy["PolicyDocument"], rendered)
    return found


def of_file(path: Path) -> dict:
    return json.loads(filled(path.read_text(), {}))


def spoken(value, template: dict):
    """Returns the value with example values for everything that CloudFormation inserts."""
    if isinstance(value, list):
        return [spoken(item, template) for item in value]
    if not isinstance(value, dict):
        return value
    match list(value.items()):
        case [("Ref", name)]:
            return named(name, template)
        case [("Fn::GetAtt", [name, "Arn"])]:
            return arn(name, template)
        case [("Fn::Sub", str(text))]:
            return filled(text, template)
        case [(name, _)] if name.startswith("Fn::"):
            raise Unknown(f"policy_gate.py cannot read {json.dumps(value)}; add a case to it")
    return {key: spoken(item, template) for key, item in value.items()}


def filled(text: str, template: dict) -> str:
    def put_in(match: re.Match) -> str:
        name = match[1]
        return arn(name[:-4], template) if name.endswith(".Arn") else named(name, template)

    return re.sub(r"\$\{([^!}]+)\}", put_in, text)


def named(name: str, template: dict) -> str:
    if name.endswith("KeyArn"):
        return f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0a1b2c3d-4e5f-6789-abcd-ef0123456789"
    plain = name.removeprefix("AWS::")
    default = template.get("Parameters", {}).get(name, {}).get("Default")
    return EXAMPLES.get(plain) or (default and str(default)) or plain.lower()


def arn(name: str, template: dict) -> str:
    kind = template["Resources"].get(name, {}).get("Type", "nothing")
    if kind not in ARNS:
        raise Unknown(f"policy_gate.py has no ARN for {name} of the type {kind}; add the type to ARNS")
    return ARNS[kind].replace("NAME", name.lower())


# -------------------------------------------------------------------- judging


def parliament(policies: dict[str, dict]) -> list[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        for name, policy in policies.items():
            (Path(folder) / f"{name}.json").write_text(json.dumps(policy, indent=1))
        run = subprocess.run(
            [PARLIAMENT, "--directory", folder, "--json"], cwd=folder, capture_output=True, text=True, timeout=120
        )
    # Exit code 0: no finding. 1: findings, as JSON. Errors write no JSON.
    if run.returncode not in (0, 1) or (run.returncode == 1) != bool(run.stdout.strip()):
        raise RuntimeError(f"parliament did not finish: {run.stderr.strip()[-2000:]}")
    return [finding(json.loads(line)) for line in run.stdout.splitlines() if line.strip()]


def finding(said: dict) -> Finding:
    place = place_of(Path(said["location"]["filepath"]).stem)
    return Finding(said["issue"], place, f"{said['title']}: {json.dumps(said['detail'])[:300]}")


def wide(policies: dict[str, dict]) -> list[Finding]:
    """Finds wildcards and negations, which parliament accepts if the statement names single resources."""
    found = []
    for name, policy in policies.items():
        for statement in policy["Statement"]:
            sid, allows = statement.get("Sid", "a statement"), statement["Effect"] == "Allow"
            if allows and {"NotAction", "NotResource"} & set(statement):
                found.append(Finding("NEGATION", place_of(name), f"{sid} allows everything except a list"))
            if allows and any("*" in action for action in listed(statement.get("Action", []))):
                found.append(Finding("WIDE_ACTION", place_of(name), f"{sid} has a wildcard in an action"))
    return found


def place_of(name: str) -> str:
    """Returns the name of a policy without its set of parameters."""
    return name.partition("@")[0]


def listed(value) -> list:
    return value if isinstance(value, list) else [value]


def main() -> int:
    files = [Path(word) for word in sys.argv[1:]] or POLICIES
    try:
        found = complaints(TEMPLATE, files)
    except Unknown as unknown:
        found = [str(unknown)]
    for complaint in found:
        print(complaint, file=sys.stderr)
    print("policies: " + (f"{len(found)} finding(s) that are not accepted" if found else "no finding"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
