"""The transformed template of a release deploys what template.yaml deploys, and AWS CDK can include it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import template_gate  # noqa: E402
from package import FUNCTIONS, ROOT, Trouble, prebuilt  # noqa: E402
from package_template import PARAMETERS, RULES, expanded  # noqa: E402
from render import render  # noqa: E402

ZIPS = {f"{function}-arm64.zip" for function in FUNCTIONS}
CODE = {"CodeBucket": "amzn-s3-demo-bucket", "CodePrefix": "mitt/v1/"}
CDK = ROOT / "infra/cdk"


@pytest.fixture(scope="module")
def text():
    return expanded(prebuilt((ROOT / "template.yaml").read_text(), "arm64"), ZIPS)


def test_it_deploys_what_the_sam_template_deploys(text):
    made, plain = json.loads(text), template_gate.expand(template_gate.TEMPLATE)
    for template in (made, plain):
        for part in template["Resources"].values():
            if "S3Key" in part["Properties"].get("Code", {}):
                part["Properties"].pop("Code")
            part.pop("Metadata", None)
        # The check of a gradual deployment names the new version.
        template["Resources"]["NewVersionCheck"]["Properties"].pop("Environment")
    # The logical id of a version comes from the place of the zip.
    resources = [{name.split("Version")[0] if kind(part) == "Version" else name: part for name, part in template["Resources"].items()}
                 for template in (made, plain)]
    alias = [each.pop("CatcherAliaslive")["Properties"]["Name"] for each in resources]
    assert alias == ["live", "live"]
    assert resources[0] == resources[1]
    assert made["Rules"].keys() - plain["Rules"].keys() == RULES.keys()
    assert made["Conditions"] == plain["Conditions"] and made["Outputs"] == plain["Outputs"]
    assert made["Parameters"].keys() - plain["Parameters"].keys() == PARAMETERS.keys()


def kind(part):
    return part["Type"].rpartition("::")[2]


def test_each_function_loads_its_zip_from_the_bucket(text):
    resources = json.loads(text)["Resources"].values()
    code = [part["Properties"]["Code"] for part in resources if "S3Key" in part["Properties"].get("Code", {})]
    assert all(each["S3Bucket"] == {"Ref": "CodeBucket"} for each in code)
    assert {each["S3Key"]["Fn::Sub"] for each in code} == {f"${{CodePrefix}}{name}" for name in ZIPS}


def test_cfn_lint_finds_nothing(text):
    made = json.loads(text)
    made["Metadata"].pop("cfn-lint")
    assert template_gate.lint(made) == []
    for name, values in template_gate.SETS.items():
        assert template_gate.lint(render(made, values | CODE), "W2001") == [], name


def test_a_template_with_other_zips_is_refused():
    with pytest.raises(Trouble, match="does not name its zips"):
        expanded(prebuilt((ROOT / "template.yaml").read_text(), "x86_64"), ZIPS)


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is missing, so AWS CDK is not installed")
def test_aws_cdk_includes_it(text, tmp_path):
    (tmp_path / "template.json").write_text(text)
    environment = os.environ | {"MITT_TEMPLATE": str(tmp_path / "template.json"), "CDK_OUTDIR": str(tmp_path / "out")}
    run = subprocess.run(["node", "app.mjs"], cwd=CDK, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0 and "WARNING" not in run.stdout + run.stderr, run.stdout + run.stderr
    synthesized = json.loads((tmp_path / "out/mitt.template.json").read_text())
    assert synthesized["Resources"].keys() == json.loads(text)["Resources"].keys()
    assert "CodeBucket" not in synthesized["Parameters"] and "AlarmEmail" not in synthesized["Parameters"]
    bodies = synthesized["Resources"]["Bodies"]
    assert bodies["DeletionPolicy"] == json.loads(text)["Resources"]["Bodies"]["DeletionPolicy"]
