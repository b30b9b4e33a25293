"""Checks that the receivers with official SDKs are as their documentation shows them."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
RECEIVERS = ROOT / "infra/tests/receivers"
TESTS = ROOT / "functions/processor/tests/stack"


def applications():
    return sorted([*RECEIVERS.glob("node/*.mjs"), *RECEIVERS.glob("python/*_app.py")])


def test_no_receiver_knows_mitt():
    assert len(applications()) == 13
    for path in [*applications(), RECEIVERS / "python/serve.py"]:
        assert "mitt" not in path.read_text().lower(), path


def test_every_receiver_names_its_documentation_and_is_tested():
    driven = "".join(path.read_text() for path in TESTS.glob("receivers*/*.rs"))
    driven += (TESTS / "receivers.rs").read_text()
    for path in applications():
        assert path.read_text().split("\n")[0].split(" ")[1].startswith("https://"), path
        assert f'"{path.name}"' in driven, path
