"""A check detects each fault of faults.py: pytest -s shows a table.

The cheap checks run first, and the first that detects the fault ends the search: the tests over the parsed
template take milliseconds, the transform a tenth of a second, cfn-lint a second, `sam validate` several.
"""

import inspect

import pytest

import template_gate
import test_template
import test_template_alarms
import test_template_options
import test_template_rights
from faults import FAULTS
from samtranslator.model.exceptions import InvalidDocumentException
from template_parts import TEXT, parse

MODULES = (test_template, test_template_rights, test_template_options, test_template_alarms)
INVARIANTS = {
    name: test
    for module in MODULES
    for name, test in vars(module).items()
    if name.startswith("test_") and list(inspect.signature(test).parameters) == ["template"]
}


def test_the_template_has_no_fault():
    template = parse(TEXT)
    for test in INVARIANTS.values():
        test(template)


@pytest.mark.parametrize("check, sound, fault", FAULTS, ids=[f"{f[0]}: {f[2].strip()[:40]}" for f in FAULTS])
def test_each_fault_is_noticed(check, sound, fault, tmp_path, capsys):
    assert sound in TEXT, "the template no longer contains this text; update faults.py"
    text = TEXT.replace(sound, fault, 1)
    # The expected check runs first, which shows that each check is useful.
    found = notices(INVARIANTS[check], text) if check in INVARIANTS else first_to_notice(text, tmp_path)
    with capsys.disabled():
        print(f"\n  {(found or 'NO CHECK'):90} {fault.strip().splitlines()[0][:60] if fault.strip() else 'without ' + sound.strip()[:52]}", end="")
    assert found, "no check detects this fault; write one"
    assert found == check or (check not in INVARIANTS and check in found), found


def test_each_check_has_a_fault_that_it_notices():
    checks = {check for check, _, _ in FAULTS}
    assert checks == INVARIANTS.keys() | {"SAM transform", "cfn-lint"}
    assert len(FAULTS) >= 30


# -------------------------------------------------------------------- help


def notices(test, text):
    """Returns the name of the test if the template fails it, otherwise `None`."""
    try:
        test(parse(text))
    # A test that looks for a missing part raises one of these errors.
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError):
        return test.__name__
    return None


def first_to_notice(text, folder):
    for test in INVARIANTS.values():
        if found := notices(test, text):
            return found
    path = folder / "template.yaml"
    path.write_text(text)
    try:
        template = template_gate.expand(path)
    except InvalidDocumentException:
        return "SAM transform"
    if template_gate.lint(template):
        return "cfn-lint"
    if template_gate.rendered_lint(path):
        return "cfn-lint of what is deployed"
    return "sam validate" if template_gate.sam_validate(path) else None
