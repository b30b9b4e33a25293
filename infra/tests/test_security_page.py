"""Each guarantee on the security page names a test, and the test exists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "infra/docs/security.md"
FOLDERS = ["functions", "shared", "infra"]
SKIPPED = {"target", "node_modules", "__pycache__"}


def rows():
    """Returns the rows of the page's tables: a guarantee, and the names of its tests."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 2 and cells[1] != "tests":
            yield cells[0], re.findall(r"`([a-z_0-9]+)`", cells[1])


def known_tests():
    known = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".rs", ".py"} and not SKIPPED & set(path.parts):
                text = path.read_text()
                known.update(re.findall(r"#\[(?:tokio::)?test[^\n]*\]\s*(?:#\[[^\n]*\]\s*)*(?:async )?fn (\w+)", text))
                known.update(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    return known


def test_each_sentence_names_tests_that_exist():
    known = known_tests()
    assert len(list(rows())) >= 15
    for sentence, names in rows():
        assert names, sentence
        assert not set(names) - known, sentence
