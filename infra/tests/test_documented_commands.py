"""documented_commands.py runs every command of the pages, or says why it does not."""

import re

import botocore.session
import documented_commands as pages
import pytest
from documented_commands import Command

PAGE = """# A page

`make no` is in a sentence.

```sh
sam build && sam deploy \\
  --guided            # asks
# nothing
webhookctl send github --set a=#b
```

1. A list:

   ```sh
   aws ssm get-parameters --name a \\
     | jq . \\
     | while read -r secret; do
         echo "$secret"
       done
   ```

```console
$ make no
```
"""
# Programs of which the script runs every command that no table excludes.
RUNS = ("webhookctl", "make", "export", "cd", "mkdir")
# Options of the AWS CLI that belong to no operation.
OF_CLI = {"region", "cli-input-json", "query", "output"}
# Commands of the AWS CLI that are no operations of a service.
NO_OPERATIONS = {"cloudformation package", "cloudformation deploy"}


def test_every_command_of_a_block_is_found():
    found = [(one.line, one.text) for one in pages.commands(PAGE)]
    assert found == [
        (6, "sam build"),
        (6, "sam deploy --guided"),
        (9, "webhookctl send github --set a=#b"),
        (15, 'aws ssm get-parameters --name a | jq . | while read -r secret; do echo "$secret" done'),
    ]


def test_every_command_runs_or_has_a_reason():
    found = pages.documented()
    assert len(found) > 250
    assert [str(one) for one in found if not one.not_here() and not one.text.startswith(RUNS)] == []


def test_few_commands_of_webhookctl_do_not_run():
    ours = [one for one in pages.once(pages.documented()) if one.text.startswith("webhookctl ")]
    assert len([one for one in ours if one.not_here()]) <= len(ours) / 10


def test_every_entry_of_the_tables_is_about_a_command():
    texts = [one.text for one in pages.documented()]
    patterns = [*pages.NOT_HERE, pages.LAST, *map(re.escape, [*pages.BEFORE, *pages.AFTER])]
    assert [pattern for pattern in patterns if not any(re.match(pattern, text) for text in texts)] == []
    whole = [*pages.ENDS_WITH, *pages.ASKS_FOR_SECRET]
    assert [command for command in whole if command not in texts] == []
    assert [pattern for pattern, _ in pages.SHORTER if not any(re.search(pattern, text) for text in texts)] == []


def test_a_command_that_others_need_comes_last():
    found = [Command("a.md", 1, "webhookctl sources remove a"), Command("a.md", 2, "make b"), Command("b.md", 3, "make b")]
    assert pages.once(found) == [found[1], found[0]]


def aws(text):
    """Returns the service, the operation and the options of each call of the AWS CLI in a command."""
    for service, operation, options in re.findall(r"\baws ([a-z0-9-]+) ([a-z0-9-]+)([^|>]*)", text):
        yield service, operation, set(re.findall(r"(?<=\s)--([a-z0-9-]+)", options))


def wrong_calls(text):
    session = botocore.session.get_session()
    wrong = []
    for service, operation, options in aws(text):
        if f"{service} {operation}" in NO_OPERATIONS:
            continue
        model = session.get_service_model("s3" if service == "s3api" else service)
        known = {cli(name): name for name in model.operation_names}
        if operation not in known:
            wrong.append(f"{service} {operation}")
            continue
        members = {cli(name) for name in model.operation_model(known[operation]).input_shape.members}
        # A member that is true or false has a second option.
        members |= {f"no-{name}" for name in members}
        wrong += [f"{service} {operation} --{option}" for option in sorted(options - members - OF_CLI)]
    return wrong


def cli(name):
    """Returns the name of an operation or a member as the AWS CLI writes it."""
    return botocore.xform_name(name, "-")


def test_operations_and_options_of_aws_exist():
    found = [one for one in pages.documented() if one.text.startswith("aws ")]
    assert len(found) >= 5
    assert {str(one): wrong for one in found if (wrong := wrong_calls(one.text))} == {}


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("aws ssm put-parameter --name a --valeu b", ["ssm put-parameter --valeu"]),
        ("aws ssm put-parameters --name a", ["ssm put-parameters"]),
        ("aws ssm put-parameter --region a --name b | aws iam get-roles", ["iam get-roles"]),
    ],
)
def test_a_wrong_call_of_aws_is_found(text, wrong):
    assert wrong_calls(text) == wrong
