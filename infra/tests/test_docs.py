"""Every page is in the index, every link has a target, and every name in a page exists."""

import re
from pathlib import Path

from test_security_page import known_tests

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "infra/docs"
SKIPPED = {"target", "node_modules", ".venv", ".tools", ".mitt", ".aws-sam", ".git", "corpus", "artifacts"}
# Pages whose statements about code name tests.
WITH_TESTS = ["architecture.md", "compatibility.md"]


def pages():
    return [page for page in sorted(ROOT.rglob("*.md")) if not SKIPPED & set(page.relative_to(ROOT).parts)]


def prose(page):
    """Returns the text of a page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def links(page):
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]


def anchors(page):
    """Returns the anchors that GitHub creates for the headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def named(page):
    """Returns the texts between single backticks."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def functions():
    """Returns each function of the code, as `Type::name` and as `module::name`."""
    found = set()
    for folder in ["functions", "shared", "infra"]:
        for file in (ROOT / folder).rglob("*.rs"):
            if SKIPPED & set(file.relative_to(ROOT).parts):
                continue
            owner = file.stem
            for line in file.read_text().splitlines():
                if line == "}":
                    owner = file.stem
                elif implemented := re.match(r"impl(?:<[^>]*>)? (?:.* for )?(\w+)", line):
                    owner = implemented[1]
                elif function := re.match(r" *(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?fn (\w+)", line):
                    found.add(f"{owner}::{function[1]}")
    return found


def test_every_page_is_in_the_index():
    index = DOCS / "README.md"
    listed = {(DOCS / link.split("#")[0]).resolve() for link in links(index)}
    missing = {page for page in DOCS.rglob("*.md") if page != index} - listed
    assert not missing


def test_no_link_is_broken():
    broken = []
    for page in pages():
        for link in links(page):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or anchor and target.suffix == ".md" and anchor not in anchors(target):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert not broken


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `b`, c\n[x](#a-b-c) [y](other.md#z) [z](https://a.example)\n```\n[no](link)\n```\n`[no](code)`\n")
    assert links(page) == ["#a-b-c", "other.md#z"]
    assert anchors(page) == {"a-b-c"}


def test_paths_that_the_architecture_names_exist():
    paths = [name for name in named(DOCS / "architecture.md") if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", name) and "/" in name]
    paths = [path for path in paths if not path.startswith("src/")]
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_functions_that_the_architecture_names_exist():
    named_there = [name for name in named(DOCS / "architecture.md") if re.fullmatch(r"\w+::\w+", name)]
    assert len(named_there) > 20
    assert sorted(set(named_there) - functions()) == []


def test_tests_that_the_pages_name_exist():
    known = known_tests()
    for name in WITH_TESTS:
        tests = [test for test in named(DOCS / name) if re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+){3,}", test)]
        assert tests, name
        assert [test for test in tests if test not in known] == [], name


def test_targets_that_the_pages_name_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    wrong = []
    for page in pages():
        shown = re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", page.read_text(), re.MULTILINE)
        wrong += [f"{page.name}: make {one or other}" for one, other in shown if (one or other) not in targets]
    assert not wrong


def test_the_picture_of_the_demo_shows_what_the_page_shows():
    """A test of webhookctl compares the page with what the demo prints."""
    block = next(part for part in (DOCS / "getting-started.md").read_text().split("```") if "● done" in part)
    picture = (DOCS / "demo.svg").read_text()
    shown = [re.sub(r"<[^>]+>", "", text) for text in re.findall(r"<text [^>]*>(.*)</text>", picture)]
    lines = [" ".join(line.split()) for line in block.splitlines() if line.strip()]
    assert [" ".join(line.split()) for line in shown] == ["$ make run", *lines]
