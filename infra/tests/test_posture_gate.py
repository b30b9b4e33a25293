"""The gate accepts the template, and rejects open resources, plain-text secrets and unnecessary entries."""

import pytest
import yaml

import posture_gate
from accepted import ACCEPTED, Finding, read, unaccepted

# (name of the fault, text of the template, its replacement, the rule that the gate must report)
FAULTS = [
    ("an open bucket", "BlockPublicPolicy: true", "BlockPublicPolicy: false", "CKV_AWS_54"),
    ("a bucket without versions", "VersioningConfiguration: { Status: Enabled }", "Tags: []", "CKV_AWS_21"),
    ("logs without an end", "/backup-sync\n      RetentionInDays: !Ref LogRetentionDays", "/backup-sync", "CKV_AWS_66"),
    ("a secret in the environment", "MITT_TABLE: !If [UsesOtherTable, !Ref TableName, !Ref Inbox]", "MITT_TABLE: AKIAIOSFODNN7EXAMPL3", "CKV_AWS_45"),
    ("no point-in-time recovery", "PointInTimeRecoveryEnabled: true", "PointInTimeRecoveryEnabled: false", "CKV_AWS_165"),
]


def test_the_template_has_no_finding_that_nobody_accepted():
    assert posture_gate.complaints(posture_gate.TEMPLATE) == []


def test_the_gate_refuses_each_fault(tmp_path):
    # All faults in one run, because checkov takes seconds to start.
    broken = posture_gate.TEMPLATE.read_text()
    for name, text, fault, _ in FAULTS:
        assert text in broken, f"the template no longer contains the text of {name!r}; update FAULTS"
        broken = broken.replace(text, fault, 1)
    path = tmp_path / "template.yaml"
    path.write_text(broken)

    found = " ".join(posture_gate.complaints(path))

    assert [name for name, *_, rule in FAULTS if rule not in found] == [], found


def test_the_gate_also_reads_the_templates_beside(tmp_path):
    for name, text, fault, rule in [
        ("edge.yaml", "MinimumProtocolVersion: TLSv1.2_2021", "MinimumProtocolVersion: TLSv1", "CKV_AWS_174"),
        ("deploy-role.yaml", "BlockPublicPolicy: true", "BlockPublicPolicy: false", "CKV_AWS_54"),
    ]:
        sound = (posture_gate.TEMPLATE.parent / "infra" / name).read_text()
        assert text in sound, f"{name} no longer contains this text"
        path = tmp_path / name
        path.write_text(sound.replace(text, fault, 1))

        found = posture_gate.scan_all({name: posture_gate.rendered(path, posture_gate.BESIDE[name])})

        assert rule in {finding.rule for finding in found}, found


# -------------------------------------------------------------------- accepted findings

OPEN = Finding("CKV_1", "Bucket", "is open")


@pytest.fixture
def accepting(tmp_path):
    def write(*entries):
        path = tmp_path / "accepted.yaml"
        path.write_text(yaml.safe_dump(list(entries)))
        return path

    return write


def test_a_finding_is_accepted_by_its_tool_rule_and_place(accepting):
    entry = {"tool": "checkov", "rule": "CKV_1", "why": "it may"}

    assert unaccepted("checkov", [OPEN], accepting(entry)) == []
    assert unaccepted("checkov", [OPEN], accepting(entry | {"place": "Bucket"})) == []
    assert unaccepted("checkov", [OPEN], accepting()) == ["Bucket: is open (CKV_1)"]
    assert "Bucket: is open (CKV_1)" in unaccepted("checkov", [OPEN], accepting(entry | {"place": "Other"}))
    assert "Bucket: is open (CKV_1)" in unaccepted("checkov", [OPEN], accepting(entry | {"rule": "CKV_2"}))
    assert "Bucket: is open (CKV_1)" in unaccepted("checkov", [OPEN], accepting(entry | {"tool": "parliament"}))


def test_an_entry_that_fits_nothing_is_a_complaint(accepting):
    path = accepting({"tool": "checkov", "rule": "CKV_2", "why": "it may"})

    [complaint] = unaccepted("checkov", [], path)
    assert complaint == "accepted.yaml: checkov no longer reports CKV_2; remove the entry"


def test_nothing_is_accepted_without_a_reason(accepting):
    with pytest.raises(ValueError, match="CKV_1"):
        read(accepting({"tool": "checkov", "rule": "CKV_1", "why": " "}))
    with pytest.raises(ValueError, match="why"):
        read(accepting({"tool": "checkov", "rule": "CKV_1"}))
    assert all(len(entry["why"]) > 40 for entry in read(ACCEPTED))
