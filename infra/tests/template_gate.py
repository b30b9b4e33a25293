"""Refuses a template.yaml that cannot be deployed.

    python infra/tests/template_gate.py [FILE]

Two checks, because each is blind where the other sees. `sam validate` runs SAM's transform but
believes whatever passes through it. cfn-lint knows the resources of CloudFormation but reads a
SAM template without transforming it, and so misses a reference to nothing, a runtime that does
not exist or a value out of range. Here it reads the outcome of the transform.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

# Both ask for a Region and neither calls AWS.
REGION = "eu-central-1"
os.environ.setdefault("AWS_DEFAULT_REGION", REGION)

import cfnlint.api  # noqa: E402
import cfnlint.config  # noqa: E402
from samcli.yamlhelper import yaml_parse  # noqa: E402
from samtranslator.model.exceptions import InvalidDocumentException  # noqa: E402
from samtranslator.parser.parser import Parser  # noqa: E402
from samtranslator.translator.translator import Translator  # noqa: E402

TEMPLATE = Path(__file__).parents[2] / "template.yaml"


def complaints(path: Path) -> list[str]:
    """What is wrong with the template, one sentence each; nothing if it can be deployed."""
    return sam_validate(path) or expanded_lint(path)


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
    try:
        template = json.dumps(expand(path))
    except InvalidDocumentException as error:
        return [f"SAM transform: {error.message}"]
    matches = cfnlint.api.lint(
        template,
        regions=[REGION],
        # I: advice, which may be ignored. A warning may not.
        config=cfnlint.config.ManualArgs(include_checks=["W", "E"]),
    )
    return [f"{'/'.join(map(str, m.path or []))}: {m.message} ({m.rule.id})" for m in matches]


def expand(path: Path) -> dict:
    """The template as CloudFormation sees it, with its functions already uploaded."""
    template = yaml_parse(path.read_text())
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if "CodeUri" in properties:
            properties["CodeUri"] = "s3://artifacts/bootstrap.zip"
    return Translator({}, Parser()).translate(template, parameter_values={})


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else TEMPLATE
    found = complaints(path)
    for complaint in found:
        print(complaint, file=sys.stderr)
    print(f"{path.name}: " + (f"{len(found)} reason(s) not to deploy" if found else "can be deployed"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
