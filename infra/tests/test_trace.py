"""The Python code of the page about traces calculates the ids that the functions derive."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "infra/docs/trace.md"
RUST = ROOT / "shared/src/inbox/trace.rs"

SOURCE, EVENT = "stripe-main", "evt_1PqKrs"
KEY = "wh_b76qkifxhx4peotcvlirfsujbj2nogdq656kxyr2"
OWNER = "processor/0123456789ab"
PK = f"E#{SOURCE}#{EVENT}"


def documented():
    """Runs the code of the page. Returns what it defines."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [code] = [block for block in blocks if "hashlib" in block]
    defined = {}
    exec(code, defined)
    return defined


def vector():
    """Returns the ids that a test in Rust expects, by the function that derives them."""
    body = RUST.read_text().split("fn the_ids_of_the_documented_event_stay", 1)[1].split("\n    }\n", 1)[0]
    assert f'"{KEY}"' in body and f'"{OWNER}"' in body
    return re.findall(r'"([0-9a-f]{16}|[0-9a-f]{32})"', body)


def test_the_documented_code_gives_the_ids_of_the_functions():
    page = documented()

    trace, receipt, attempt, wait, effect = vector()

    assert page["trace_id"](SOURCE, EVENT) == trace
    assert page["derived"](8, "span", PK) == receipt
    assert page["derived"](8, "span", PK, OWNER) == attempt
    assert page["derived"](8, "span", PK, OWNER, "wait") == wait
    assert page["effect_span"](SOURCE, EVENT, KEY) == effect
    assert page["effect_span"](SOURCE, EVENT, KEY, run=1) != effect


def test_the_example_of_the_page_has_these_ids():
    text = PAGE.read_text()
    trace, receipt, attempt, wait, effect = vector()
    for id in [trace, receipt, attempt, wait, effect]:
        assert text.count(id) == 1, id


def test_an_id_of_zeros_is_hashed_again(monkeypatch):
    page = documented()

    class Zeros:
        def __init__(self, data):
            self.data = data

        def digest(self):
            return bytes([self.data[-1]] * 32) if self.data[-1] in (0, 2) else bytes(32)

    monkeypatch.setattr(page["hashlib"], "sha256", Zeros)
    assert page["derived"](8, "a") == "02" * 8
