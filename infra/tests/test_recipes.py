"""The recipes of receivers and workers: their READMEs are short, the pages list and show them, and each is tested."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "infra/examples"
PAGE = ROOT / "infra/docs/receivers.md"
WORKERS = ROOT / "infra/docs/agents.md"
TESTS = ROOT / "infra/tests/recipes"
NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())


def shown(page):
    """Returns each code block that follows a link to a file of a recipe, as the path of the file and the text."""
    pattern = r"\]\(\.\./examples/([\w./-]+\.(?:js|mjs|py|go))\):\n\n```\w+\n(.*?)^```$"
    return re.findall(pattern, page, re.MULTILINE | re.DOTALL)


def unequal(page):
    return [path for path, text in shown(page) if text != (EXAMPLES / path).read_text()]


def test_the_code_of_the_page_is_the_code_that_is_tested():
    page = PAGE.read_text()

    assert [path for path, _ in shown(page)] == ["express/server.js", "fastapi/main.py"]
    assert unequal(page) == []
    # The page has no other code in these languages.
    assert len(re.findall(r"^```(?:js|python|go)$", page, re.MULTILINE)) == 2


def test_code_that_differs_is_found():
    page = PAGE.read_text()

    assert unequal(page.replace("express.raw(", "express.text(")) == ["express/server.js"]


def test_the_pages_list_every_recipe():
    text = PAGE.read_text() + WORKERS.read_text()
    listed = re.findall(r"\[`([\w-]+)`\]\(\.\./examples/([\w-]+)/README\.md\)", text)

    assert sorted(name for name, _ in listed) == NAMES
    assert all(name == folder for name, folder in listed)


@pytest.mark.parametrize("name", NAMES)
def test_a_readme_is_short_and_shows_how_to_try_the_recipe(name):
    readme = (EXAMPLES / name / "README.md").read_text()

    assert len(readme.splitlines()) <= 32
    assert "webhookctl send stripe-main --wait" in readme
    if name in http_names():
        assert "webhookctl dev --forward :3000" in readme
    if name in worker_names():
        assert "](../../clients/mitt" in readme and 'kind = "pull"' in readme


def http_names():
    return set(re.findall(r'^    "([\w-]+)": \(', (TESTS / "receivers.py").read_text(), re.MULTILINE))


def worker_names():
    return set(re.findall(r'^    "([\w-]+)": Recipe\(', (TESTS / "frameworks.py").read_text(), re.MULTILINE))


def test_every_recipe_is_tested():
    aws = set(re.findall(r'"((?:lambda|sqs)-\w+)"', (TESTS / "aws_receivers.py").read_text()))

    assert sorted(http_names() | aws | worker_names()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_dependency_has_an_exact_version(name):
    folder = EXAMPLES / name
    versions = []
    for file in folder.glob("requirements.txt"):
        versions += re.findall(r"^[\w-]+==([\d.]+)$", file.read_text(), re.MULTILINE)
        assert len(versions) == len(file.read_text().splitlines())
    for file in folder.glob("package.json"):
        block = re.search(r'"dependencies": \{(.*?)\}', file.read_text(), re.DOTALL)[1]
        versions += re.findall(r'"[\w@/-]+": "(\d+\.\d+\.\d+)"', block)
        assert len(versions) == block.count(": ")
    for file in folder.glob("go.mod"):
        versions += re.findall(r"^require \S+ v(\d+\.\d+\.\d+)$", file.read_text(), re.MULTILINE)
    assert versions
