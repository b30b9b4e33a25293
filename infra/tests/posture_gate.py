"""Rejects resources of template.yaml, edge.yaml and deploy-role.yaml that are open, unencrypted or unlogged without a reason.

    python infra/tests/posture_gate.py [FILE]

Checkov (https://www.checkov.io) checks the output of SAM's transform, because its rules do not know what the transform
adds. The conditions are resolved first: checkov treats a resource whose encryption is an `Fn::If` as unencrypted.
infra/accepted.yaml lists the accepted findings.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from accepted import Finding, unaccepted
from render import render
from template_gate import ACCOUNT, TEMPLATE, deployed, expand

CHECKOV = Path(__file__).parents[2] / ".venv/scanners/bin/checkov"


# The templates beside the main one, with example values for the parameters that have no default.
BESIDE = {
    "edge.yaml": {
        "CertificateArn": f"arn:aws:acm:us-east-1:{ACCOUNT}:certificate/0a1b2c3d",
        "DomainName": "hooks.example.com",
        "Mode": "Block",
        "OriginDomain": "a1b2c3d4e5.execute-api.eu-central-1.amazonaws.com",
    },
    "deploy-role.yaml": {"Repository": "owner/repository"},
}


def complaints(path: Path) -> list[str]:
    """Returns a sentence for each finding of checkov that is not accepted."""
    return unaccepted("checkov", findings(path))


def findings(path: Path) -> list[Finding]:
    beside = {name: rendered(TEMPLATE.parent / "infra" / name, values) for name, values in BESIDE.items()}
    return scan_all(deployed(path) | beside)


def rendered(path: Path, values: dict[str, str]) -> dict:
    return render(expand(path, values), values)


def scan_all(templates: dict[str, dict]) -> list[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, template in templates.items():
            file = Path(folder) / f"{name}.json"
            file.write_text(json.dumps(template, indent=1))
            files += ["--file", str(file)]
        return scan(files)


def scan(files: list[str]) -> list[Finding]:
    run = subprocess.run(
        # With --skip-download, checkov does not download the links to its explanations.
        [CHECKOV, *files, "--framework", "cloudformation", "--output", "json", "--skip-download", "--soft-fail"],
        # Ignores the configuration of the user, and does not look for a newer version on the network.
        env=os.environ
        | {"CKV_IGNORE_HIDDEN_DIRECTORIES": "false", "CKV_SKIP_PACKAGE_UPDATE_CHECK": "true", "LOG_LEVEL": "ERROR"},
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    if run.returncode != 0:
        raise RuntimeError(f"checkov did not finish: {run.stderr.strip()[-2000:]}")
    results = json.loads(run.stdout)["results"]
    if results["parsing_errors"] or not results["passed_checks"]:
        raise RuntimeError(f"checkov could not read the template: {results['parsing_errors']}")
    return [
        Finding(failed["check_id"], failed["resource"].rpartition(".")[2], failed["check_name"])
        for failed in results["failed_checks"]
    ]


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else TEMPLATE
    found = complaints(path)
    for complaint in found:
        print(complaint, file=sys.stderr)
    print(f"{path.name}: " + (f"{len(found)} finding(s) that are not accepted" if found else "no finding"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
