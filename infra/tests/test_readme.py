"""readme_on_ministack.py runs the commands of the deployment page, and README shows a part of them."""

import pytest
import readme_on_ministack as readme

README = (readme.ROOT / "README.md").read_text()
DEPLOY = readme.PAGE.read_text()
PAGE = f"""
`sam validate` is of another section.

{readme.SECTION}

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
    assert readme.commands(PAGE) == ["make one", "sam build", "sam deploy --guided", "webhookctl send github --set a=#b"]


def test_without_the_section_nothing_passes():
    with pytest.raises(readme.Astray, match="no section"):
        readme.commands(PAGE.replace(readme.SECTION, "## Elsewhere"))


def test_what_the_tables_know_is_in_the_page():
    found = readme.commands(DEPLOY)

    assert readme.NOT_HERE.keys() | readme.SHOWS.keys() | readme.ENDS_WITH.keys() <= set(found)
    assert len(set(found) - readme.NOT_HERE.keys()) >= 8, "the script runs too few commands"
    for example in (readme.EXAMPLE_REGION, readme.EXAMPLE_API):
        assert any(example in command for command in found), f"no command contains {example}"


def test_a_table_that_knows_more_than_the_page_is_refused():
    with pytest.raises(readme.Astray, match="no longer says make cost"):
        readme.follow([command for command in readme.commands(DEPLOY) if command != "make cost"])


def test_readme_shows_commands_of_the_page_in_their_order():
    shown, rest = readme.commands(README), iter(readme.commands(DEPLOY))

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
