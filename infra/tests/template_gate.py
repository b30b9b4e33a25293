"""Rejects a template.yaml that cannot be deployed.

    python infra/tests/template_gate.py [FILE]

The gate runs two checks, because each misses faults that the other finds. `sam validate` runs SAM's
transform, but does not check its output. cfn-lint knows the resources of CloudFormation, but reads a SAM template
without the transform, and so misses a broken reference, an unknown runtime or a value out of range.
This gate gives cfn-lint the output of the transform, for several sets of parameters, so that options
that are off by default are also checked.
"""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

# Both tools need a Region, and neither calls AWS.
REGION = "eu-central-1"
os.environ.setdefault("AWS_DEFAULT_REGION", REGION)

import cfnlint.api  # noqa: E402
import cfnlint.config  # noqa: E402
from samcli.yamlhelper import yaml_parse  # noqa: E402
from samtranslator.model.exceptions import InvalidDocumentException  # noqa: E402
from samtranslator.parser.parser import Parser  # noqa: E402
from samtranslator.translator.translator import Translator  # noqa: E402

from render import Unknown, render  # noqa: E402

# Hides the warning of samtranslator that it does not collect metrics.
logging.getLogger("samtranslator").setLevel(logging.ERROR)

TEMPLATE = Path(__file__).parents[2] / "template.yaml"

ACCOUNT = "111122223333"

# The checked sets of parameters.
SETS = {
    "the defaults": {},
    "everything": {
        "AlarmEmail": "on-call@example.com",
        "AlarmProfile": "full",
        "AlarmTopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:alarms",
        "AllowArming": "true",
        "AllowedHosts": "hooks.example.com,*.shop.example",
        "CertificateArn": f"arn:aws:acm:{REGION}:{ACCOUNT}:certificate/0a1b2c3d-0000-1111-2222-333344445555",
        "Dashboard": "true",
        "DestinationPolicyArn": f"arn:aws:iam::{ACCOUNT}:policy/destinations",
        "DomainName": "hooks.example.com",
        "GradualDeployment": "Canary10Percent5Minutes",
        "HostedZoneId": "Z0123456789",
        "KmsKeyArn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0a1b2c3d-0000-1111-2222-333344445555",
        "LogLevel": "WARN",
        "TableName": "mitt-restored",
        "LongActions": "true",
        "OperatorPolicies": "true",
        "PermissionsBoundaryArn": f"arn:aws:iam::{ACCOUNT}:policy/boundary",
        "SecretsManagerPrefix": "prod/webhooks",
        "Sources": "table",
        "Trial": "true",
        "StatePolicyArn": f"arn:aws:iam::{ACCOUNT}:policy/state",
        "WorkerApi": "true",
    },
    "a function URL": {"AlarmProfile": "full", "CatcherConcurrency": "5", "FrontDoor": "FunctionUrl"},
    # The rollback needs two alarms that this profile does not have.
    "gradual without alarms": {"AlarmProfile": "none", "GradualDeployment": "Canary10Percent5Minutes"},
}


def complaints(path: Path) -> list[str]:
    """Returns a sentence for each fault of the template. Empty if the template can be deployed."""
    return sam_validate(path) or expanded_lint(path) or rendered_lint(path)


def sam_validate(path: Path) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-m", "samcli", "validate", "--region", REGION, "-t", str(path)],
        env=os.environ | {"SAM_CLI_TELEMETRY": "0"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    return [] if run.returncode == 0 else [f"sam validate: {(run.stderr or run.stdout).strip()}"]


def expanded_lint(path: Path) -> list[str]:
    """Returns the findings in the template with its conditions, as CloudFormation reads it."""
    try:
        template = expand(path)
    except InvalidDocumentException as error:
        return [f"SAM transform: {error.message}"]
    return lint(template)


def rendered_lint(path: Path, sets: dict[str, dict[str, str]] = SETS) -> list[str]:
    """Returns the findings in the resources that each set of parameters deploys."""
    found = []
    for name, values in sets.items():
        try:
            template = render(expand(path, values), values)
        except InvalidDocumentException as error:
            found.append(f"with {name}: SAM transform: {error.message}")
        except Unknown as error:
            found.append(f"with {name}: {error}")
        else:
            # W2001: a parameter that only conditions use is unused after rendering.
            found += [f"with {name}: {complaint}" for complaint in lint(template, "W2001")]
    return found


def deployed(path: Path) -> dict[str, dict]:
    """Returns the rendered template for each set of parameters, for tools that cannot resolve conditions."""
    return {name: render(expand(path, values), values) for name, values in SETS.items()}


def lint(template: dict, *without: str, regions: tuple[str, ...] = (REGION,)) -> list[str]:
    matches = cfnlint.api.lint(
        json.dumps(template),
        regions=list(regions),
        # Warnings and errors. Informational findings (I) are ignored.
        config=cfnlint.config.ManualArgs(include_checks=["W", "E"], ignore_checks=list(without)),
    )
    return [f"{'/'.join(map(str, m.path or []))}: {m.message} ({m.rule.id})" for m in matches]


def expand(path: Path, values: dict[str, str] | None = None) -> dict:
    """Returns the transformed template, as if its functions were already uploaded."""
    template = yaml_parse(path.read_text())
    # These exceptions are for tools that read the template before the transform.
    template.get("Metadata", {}).pop("cfn-lint", None)
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if "CodeUri" in properties:
            properties["CodeUri"] = "s3://artifacts/bootstrap.zip"
    return Translator({}, Parser()).translate(template, parameter_values=dict(values or {}))


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else TEMPLATE
    found = complaints(path)
    for complaint in found:
        print(complaint, file=sys.stderr)
    print(f"{path.name}: " + (f"{len(found)} fault(s)" if found else "can be deployed"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
