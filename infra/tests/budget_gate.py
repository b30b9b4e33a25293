"""Rejects a function that costs more than its budget.

    python infra/tests/budget_gate.py FIGURES.json

The figures are counts, which are repeatable: instructions, requests and write units. `make budgets` writes the file.
infra/bench/budgets.toml has the budget of each figure.
"""

import json
import sys
import tomllib
from pathlib import Path

BUDGETS = Path(__file__).parents[1] / "bench/budgets.toml"

# The share by which a figure may exceed its budget. Instruction counts vary less than this between runs.
SLACK = 0.05


def read(path: Path = BUDGETS) -> dict[str, dict]:
    """Returns the budget of each figure, by its name."""
    budgets = {}
    for entry in tomllib.loads(path.read_text())["budget"]:
        name = entry["figure"]
        if name in budgets:
            raise ValueError(f"{name} has two budgets")
        if set(entry) != {"figure", "is", "why"} or not entry["why"].strip():
            raise ValueError(f"the budget of {name} needs exactly `figure`, `is` and `why`")
        budgets[name] = entry
    return budgets


def complaints(figures: dict[str, float], budgets: dict[str, dict]) -> list[str]:
    """Returns a sentence for each figure above its budget, figure without a budget, and budget without a figure."""
    found = [f"{name} is measured, but has no budget" for name in figures.keys() - budgets.keys()]
    found += [f"{name} has a budget, but is not measured" for name in budgets.keys() - figures.keys()]
    for name in figures.keys() & budgets.keys():
        figure, budget = figures[name], budgets[name]["is"]
        if figure > budget * (1 + SLACK):
            found.append(f"{name} is {figure:,.10g}, {above(figure, budget)} above its budget of {budget:,}")
    return sorted(found)


def above(figure: float, budget: float) -> str:
    return f"{figure / budget - 1:.1%}" if budget else "which is"


def table(figures: dict[str, float], budgets: dict[str, dict]) -> str:
    lines = [f"{'':<44} {'is':>12} {'budget':>12}"]
    for name, figure in sorted(figures.items()):
        budget = budgets.get(name, {}).get("is", "")
        share = f"{figure / budget - 1:+.1%}" if budget else ""
        lines.append(f"{name:<44} {figure:>12,.10g} {budget:>12,}  {share}".rstrip())
    return "\n".join(lines)


def main() -> int:
    figures = json.loads(Path(sys.argv[1]).read_text())
    budgets = read()
    found = complaints(figures, budgets)
    print(table(figures, budgets))
    for complaint in found:
        print(complaint, file=sys.stderr)
    if found:
        print(f"If the cost is justified, raise the budget and give the reason in {BUDGETS.relative_to(Path(__file__).parents[2])}.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
