"""The comparison reports calls without a permission, and permissions without a call."""

import pytest

from rights import complaints

TABLE = '[[unused]]\nrole = "R"\nparts = ["Logs action logs:PutLogEvents"]\nreason = "Lambda writes the log."\n'
GRANTED = "granted R One action s3:GetObject\ngranted R Logs action logs:PutLogEvents\n"
USED = "used R One action s3:GetObject\n"


@pytest.fixture
def compared(tmp_path):
    def run(record, table=TABLE):
        (tmp_path / "unused.toml").write_text(table)
        folder = tmp_path / "record"
        folder.mkdir(exist_ok=True)
        (folder / "1.txt").write_text(record)
        return complaints(folder, tmp_path / "unused.toml")

    return run


def test_each_right_is_used_or_has_its_reason(compared):
    assert compared(GRANTED + USED) == []


def test_a_denied_call_is_named(compared):
    (said,) = compared(GRANTED + USED + "denied R s3:DeleteObject on arn:aws:s3:::b/k\n")
    assert said.startswith("R s3:DeleteObject on arn:aws:s3:::b/k: ")


def test_a_right_that_no_call_used_is_named(compared):
    (said,) = compared(GRANTED)
    assert said.startswith("R One action s3:GetObject: no call used it")


def test_the_table_of_unused_rights_is_true(compared):
    (said,) = compared(GRANTED + USED + "used R Logs action logs:PutLogEvents\n")
    assert "a call used it" in said
    (said,) = compared(USED + "granted R One action s3:GetObject\n")
    assert "no role has it" in said
    assert "reason" in compared(GRANTED + USED, TABLE.replace("Lambda writes the log.", ""))[0]


def test_no_record_is_no_proof(compared):
    assert "no record" in compared("")[0]
