"""The workflows pass zizmor, pin their actions and have minimal permissions; zizmor rejects faults."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ZIZMOR = ROOT / ".venv/scanners/bin/zizmor"
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))

CHECKOUT = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"
CACHE = "actions/cache@27d5ce7f107fe9357f9df03efb73ab90386fccae # v5.0.5"
PACKAGE = "      - run: make package\n"

# (name of the fault, file, text, its replacement, the rule that zizmor must report)
FAULTS = [
    ("an action by its tag", "ci.yml", CHECKOUT, "actions/checkout@v7", "unpinned-uses"),
    ("permissions for all jobs", "ci.yml", "permissions: {}", "permissions: write-all", "excessive-permissions"),
    ("a token left on the disk", "ci.yml", "persist-credentials: false", "persist-credentials: true", "artipacked"),
    ("untrusted text in a command", "ci.yml", "run: make check", "run: make ${{ github.head_ref }}", "template-injection"),
    ("permissions for forks", "ci.yml", "  pull_request:", "  pull_request_target:", "dangerous-triggers"),
    ("a cache in a release", "release.yml", PACKAGE, f"      - uses: {CACHE}\n{PACKAGE}", "cache-poisoning"),
    ("updates without a cooldown", "dependabot.yml", "    cooldown: { default-days: 7 }\n", "", "dependabot-cooldown"),
]


def zizmor(folder):
    command = [ZIZMOR, "--offline", "--quiet", "--strict-collection", "--persona", "auditor", folder]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return run.returncode, run.stdout


def test_the_workflows_have_no_finding():
    code, said = zizmor(ROOT / ".github")

    assert code == 0, said


@pytest.mark.parametrize("file, text, fault, complaint", [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_zizmor_refuses(tmp_path, file, text, fault, complaint):
    shutil.copytree(ROOT / ".github", tmp_path / ".github")
    [path] = (tmp_path / ".github").rglob(file)
    sound = path.read_text()
    assert text in sound, "the file no longer contains this text; update FAULTS"
    path.write_text(sound.replace(text, fault, 1))

    code, said = zizmor(tmp_path / ".github")

    assert code != 0 and f"[{complaint}]" in said, said


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_named_by_its_hash_and_its_version(path):
    for line in path.read_text().splitlines():
        if "uses:" in line and "uses: ./" not in line:
            assert re.fullmatch(r"\s*(- )?uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_only_the_job_that_publishes_may_write():
    may_write = {
        (path.name, job): sorted(right for right, level in given["permissions"].items() if level == "write")
        for path in WORKFLOWS
        for job, given in yaml.safe_load(path.read_text())["jobs"].items()
    }
    rights = may_write.pop(("release.yml", "publish"))

    assert rights == ["attestations", "contents", "id-token"]
    assert set(map(tuple, may_write.values())) == {()}


def test_the_workflows_run_what_is_run_at_the_desk():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    said = {word for path in WORKFLOWS for word in re.findall(r"run: make (\S+)", path.read_text())}

    assert {"check", "test", "test-console", "test-mcp", "package", "advisories"} == said <= targets


def test_every_kind_of_dependency_is_kept_up_to_date():
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text())["updates"]

    assert {update["package-ecosystem"] for update in updates} == {"cargo", "pip", "npm", "github-actions"}
    folders = {folder for update in updates for folder in update.get("directories", [update.get("directory")])}
    locks = [*ROOT.glob("Cargo.lock"), *ROOT.glob("infra/**/Cargo.lock"), *ROOT.glob("infra/**/package-lock.json")]
    for lock in [lock for lock in locks if "node_modules" not in lock.parts]:
        where = "/" + str(lock.parent.relative_to(ROOT))
        assert where.removesuffix(".") in folders, lock
