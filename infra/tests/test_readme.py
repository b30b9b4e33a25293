"""readme_on_ministack.py runs the commands of two pages, and README shows a part of them."""

from dataclasses import replace

import pytest
import readme_on_ministack as readme
from botocore.model import ShapeResolver

README = (readme.ROOT / "README.md").read_text()
DEPLOY = readme.DEPLOY
PAGE = f"""
`sam validate` is of another section.

{DEPLOY.section}

You need `sam`, `make one` and `infra/samconfig.toml`.

```sh
sam build && sam deploy \\
  --guided            # asks
# nothing
webhookctl send github --set a=#b
```

```toml
sam = "no command"
```

### A part

`make two`
"""


def test_every_command_of_the_section_is_found_in_its_order():
    assert readme.commands(PAGE, DEPLOY.section) == ["make one", "sam build", "sam deploy --guided", "webhookctl send github --set a=#b"]


def test_without_the_section_nothing_passes():
    with pytest.raises(readme.Astray, match="no section"):
        readme.commands(PAGE.replace(DEPLOY.section, "## Elsewhere"), DEPLOY.section)


@pytest.mark.parametrize("name", readme.JOURNEYS)
def test_what_a_journey_names_is_in_its_page(name):
    journey = readme.JOURNEYS[name]
    found = journey.commands()

    assert journey.named() <= set(found)
    assert len(set(found) - journey.skipped.keys()) >= 6, "the script runs too few commands"
    for example in (readme.EXAMPLE_REGION, readme.EXAMPLE_API):
        assert any(example in command for command in [*journey.before, *found]), f"no command contains {example}"


def test_each_example_of_a_name_is_in_a_page():
    found = " ".join(command for journey in readme.JOURNEYS.values() for command in journey.commands())
    assert [example for example in readme.EXAMPLE_NAMES if example not in found] == []


@pytest.mark.parametrize("kind, values, expected", [
    ("string", ["file://a"], "text"),
    ("boolean", [], True),
    ("list", ["a", "b"], ["a", "b"]),
    ("structure", ["Enabled=true,Days=35"], {"Enabled": True, "Days": 35}),
])
def test_an_option_has_the_value_that_the_aws_cli_would_send(kind, values, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(readme, "FOLDER", tmp_path)
    (tmp_path / "a").write_text("text\n")
    shapes = {"B": {"type": "boolean"}, "I": {"type": "integer"}, "S": {"type": "string"}}
    shapes |= {"structure": {"type": "structure", "members": {"Enabled": {"shape": "B"}, "Days": {"shape": "I"}}}}
    shapes |= {"list": {"type": "list", "member": {"shape": "S"}}, "string": shapes["S"], "boolean": shapes["B"]}
    shape = ShapeResolver(shapes).get_shape_by_name(kind)

    assert readme.value_of(shape, values) == expected


def test_each_way_runs_what_the_other_way_skips():
    built, released = (readme.JOURNEYS[name] for name in ("first-source", "release"))

    assert readme.DEPLOY_BUILT in released.skipped and readme.DEPLOY_BUILT not in built.skipped
    assert readme.DEPLOY_RELEASED in built.skipped and readme.DEPLOY_RELEASED not in released.skipped
    assert readme.EXAMPLE_TEMPLATE in readme.DEPLOY_RELEASED


def test_an_entry_that_is_not_in_the_page_is_refused():
    with pytest.raises(readme.Astray, match="no longer says make more"):
        readme.Reader(replace(DEPLOY, skipped=DEPLOY.skipped | {"make more": "no reason"})).follow()


def test_readme_shows_commands_of_the_page_in_their_order():
    shown, rest = readme.commands(README, DEPLOY.section), iter(DEPLOY.commands())

    assert len(shown) >= 5
    assert all(command in rest for command in shown), f"README has other commands, or another order, than the page: {shown}"


def test_readme_is_short():
    assert len(README.encode()) <= 9_000


@pytest.mark.parametrize(
    "said, question",
    [
        ("\tStack Name [sam-app]: ", "Stack Name"),
        ("\tStack Name [sam-app]: \tAWS Region [us-east-1]: ", "AWS Region"),
        ("\tParameter SourcesFile []: ", "Parameter SourcesFile"),
        ("\nDeploy this changeset? [y/N]: ", "Deploy this changeset?"),
        ("\tStack Name [sam-app]: mitt\n", None),
        ("\tStack name                   : mitt\n", None),
    ],
)
def test_a_question_is_known_from_what_is_told(said, question):
    found = readme.QUESTION.search(said)

    assert (found and found[1]) == question
