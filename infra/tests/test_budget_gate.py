"""The gate rejects a figure more than five per cent above its budget; every figure has a budget."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import budget_gate

ROOT = Path(__file__).parents[2]
BUDGETS = budget_gate.read()

# `make budgets` measures each of these figures for each function.
STAGES = ["start/instructions", "first/instructions"]
WARM = ["warm/instructions", "warm/table requests", "warm/queue requests", "warm/write units"]
FUNCTIONS = sorted(path.parent.name for path in ROOT.glob("functions/*/Cargo.toml"))


def at_budget():
    return {name: budget["is"] for name, budget in BUDGETS.items()}


def test_what_costs_what_it_may_passes():
    assert budget_gate.complaints(at_budget(), BUDGETS) == []


@pytest.mark.parametrize("name", [name for name, budget in BUDGETS.items() if budget["is"]])
def test_six_per_cent_more_is_refused_with_the_figure_and_four_are_not(name):
    budget = BUDGETS[name]["is"]

    assert budget_gate.complaints(at_budget() | {name: budget * 1.04}, BUDGETS) == []
    [complaint] = budget_gate.complaints(at_budget() | {name: budget * 1.06}, BUDGETS)
    assert complaint.startswith(f"{name} is ") and "6.0% above" in complaint


@pytest.mark.parametrize("name", [name for name in BUDGETS if "requests" in name or "units" in name])
def test_one_request_or_unit_more_is_refused(name):
    # A batch of ten makes ten times as many requests.
    one = 10 if name.startswith("processor/") else 1

    [complaint] = budget_gate.complaints(at_budget() | {name: BUDGETS[name]["is"] + one}, BUDGETS)

    assert name in complaint


def test_a_figure_without_a_budget_and_a_budget_without_a_figure_are_refused():
    figures = at_budget() | {"catcher/warm/dreams": 1}
    del figures["catcher/warm/instructions"]

    assert budget_gate.complaints(figures, BUDGETS) == [
        "catcher/warm/dreams is measured, but has no budget",
        "catcher/warm/instructions has a budget, but is not measured",
    ]


def test_the_file_names_every_figure_of_every_function():
    expected = {f"{function}/{figure}" for function in FUNCTIONS for figure in STAGES + WARM}
    # With its sources in the table, a catcher reads once more before its first request.
    followed = "catcher, sources in the table"
    expected |= {f"{job}/{figure}" for job in ("catcher, duplicates", followed) for figure in WARM}
    expected |= {f"{job}/first/table requests" for job in ("catcher", followed)}

    assert len(FUNCTIONS) == 3 and set(BUDGETS) == expected


def test_the_command_fails_with_the_figure(tmp_path):
    def run(figures):
        path = tmp_path / "figures.json"
        path.write_text(json.dumps(figures))
        command = [sys.executable, ROOT / "infra/tests/budget_gate.py", path]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    name = "catcher/warm/instructions"
    sound, broken = run(at_budget()), run(at_budget() | {name: BUDGETS[name]["is"] * 1.06})

    assert sound.returncode == 0, sound.stderr
    assert broken.returncode == 1 and f"{name} is " in broken.stderr and "budgets.toml" in broken.stderr


@pytest.mark.parametrize(
    "text, complaint",
    [
        ('[[budget]]\nfigure = "a"\nis = 1\nwhy = " "\n', "needs"),
        ('[[budget]]\nfigure = "a"\nis = 1\n', "needs"),
        ('[[budget]]\nfigure = "a"\nis = 1\nwhy = "b"\n' * 2, "two budgets"),
    ],
    ids=["an empty reason", "no reason", "twice"],
)
def test_a_budget_needs_a_reason_and_stands_alone(tmp_path, text, complaint):
    path = tmp_path / "budgets.toml"
    path.write_text(text)

    with pytest.raises(ValueError, match=complaint):
        budget_gate.read(path)
