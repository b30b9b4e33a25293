"""Builds and runs the long tests, and prints one table of the results.

Each step is a target of the Makefile, and its whole output is in target/long. Two lanes run in parallel:
steps that mostly wait, because they run real processes under faults for hours, and steps that compute.
The steps that compute have a lower priority, because the others also check times. A lane without further
steps takes the last step of the other. All steps run, even if one fails; the exit code says whether all passed.
"""

import os
import re
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "target/long"
CARGO = os.environ.get("CARGO", "cargo")

OPTIMIZED = ["--profile", "simulation", "--workspace", "--locked"]
PROGRAMS = ["--test", "properties", "--test", "chaos", "--test", "stack", "--test", "cli", "--no-run"]
# What the steps need in addition to `make test-build`, and these steps.
BUILDS = [
    ("simulate properties chaos chaos-agents chaos-ablations chaos-cells load trial", [CARGO, "build", *OPTIMIZED, "--bins"]),
    ("properties chaos chaos-agents chaos-ablations chaos-cells load trial", [CARGO, "test", *OPTIMIZED, *PROGRAMS]),
    ("models", [CARGO, "build", "--release", "--locked", "-p", "models"]),
    ("fuzz", ["make", "--no-print-directory", "fuzz", "SECONDS=0"]),
    ("mutants", [sys.executable, "infra/tests/mutants.py", "build"]),
]


def whole_lines(pattern):
    """Returns the lines of the output that match a pattern."""

    def figures(text):
        return [line.strip() for line in text.splitlines() if re.search(pattern, line)]

    return figures


def storm(text):
    """Returns the table of the history check, without the counts of injected faults."""
    wanted = (
        "deliveries events acknowledged done effects answer took lost stuck duplicate_effect missing_effect"
        " double_outcome stale_commit leak late approvals unapproved approval"
    ).split()
    rows = re.findall(r"^(\S[^:]*?)  +(-?\d+)$", text, re.M)
    kept = [(label, value) for label, value in rows if label.split()[0] in wanted or label.startswith("dead: ")]
    return [f"{label:<28} {value:>10}" for label, value in kept]


def ablations(text):
    """Returns the violations in each run without one protection."""
    rows, name = [], "?"
    for line in text.splitlines():
        if started := re.search(r"(?:^| )(no-[\w-]+): SEED=", line):
            name = started[1]
        found = re.match(r"(lost|stuck|unsent|duplicate_effect|missing_effect|double_outcome|stale_commit|leak)  +([1-9]\d*)$", line)
        if found:
            rows.append(f"{name:<28} {found[1]:<20} {found[2]:>8}")
    return rows


# The steps: a target, its settings, and the function that extracts the figures from its output.
COMPUTE = [
    ("models", {}, whole_lines(r"\d+ cases, \d+ states")),
    ("simulate", {"EVENTS": "1000000"}, whole_lines(r" at most | events, |  (ok|BROKEN|BREAKS NOTHING)$|hours passed")),
    ("clauses", {}, whole_lines(r"SURVIVED|conditions, \d+ clauses cut")),
    ("mutants", {"COUNT": "40"}, whole_lines(r"SURVIVED|changes of")),
    ("properties", {"CASES": "1000000"}, whole_lines(r"^test result|cases")),
    ("fuzz", {"SECONDS": "30"}, whole_lines(r"runs, nothing found|failed;")),
]
# Without optimization, chaos and load would take too much CPU time from the simulation that runs beside them.
QUICK = {"PROFILE": "simulation"}
WAIT = [
    ("chaos", {"DELIVERIES": "50000"} | QUICK, storm),
    ("chaos-agents", {"EVENTS": "10000"} | QUICK, storm),
    ("chaos-ablations", QUICK, ablations),
    ("chaos-cells", QUICK, storm),
    ("dev-chaos", {}, whole_lines(r"^test result: .* [1-9]\d* passed")),
    ("foreign-signers", {}, whole_lines(r"^test result: .* [1-9]\d* passed")),
    ("load", QUICK, whole_lines(r"^test result: .* [1-9]\d* passed|requests, \d+ in a second")),
    ("trial", {"DELIVERIES": "10000"} | QUICK, whole_lines(r"^test result: .* [1-9]\d* passed|requests in \d+ s")),
    ("long-actions", {}, whole_lines(r"^test result: .* [1-9]\d* passed|after the kill")),
    ("receivers", {}, whole_lines(r"^test result: .* [1-9]\d* passed")),
]


def main():
    wanted = sys.argv[1:]
    unknown = set(wanted) - {name for name, _, _ in COMPUTE + WAIT}
    if unknown:
        sys.exit(f"unknown step {', '.join(sorted(unknown))}; use {', '.join(name for name, _, _ in COMPUTE + WAIT)}")
    # All builds come first, so that no build runs beside a measurement.
    for steps, command in BUILDS:
        if wanted and not set(wanted) & set(steps.split()):
            continue
        if code := subprocess.run(command, cwd=ROOT, env=environment()).returncode:
            sys.exit(code)
    LOGS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    chosen = [deque(step for step in steps if not wanted or step[0] in wanted) for steps in (COMPUTE, WAIT)]
    order = [step[0] for steps in chosen for step in steps]
    with ThreadPoolExecutor() as pool:
        lanes = [pool.submit(run_all, own, other) for own, other in (chosen, chosen[::-1])]
        rows = sorted((row for lane in lanes for row in lane.result()), key=lambda row: order.index(row[0]))
    print(table(rows, time.monotonic() - began))
    sys.exit(any(verdict != "passed" for _, _, verdict, _, _ in rows))


def run_all(own, other):
    rows = []
    while step := take(own, other):
        name, settings, figures = step
        code, took = run(name, settings)
        found = figures((LOGS / f"{name}.log").read_text(errors="replace"))
        rows.append((name, settings, "passed" if code == 0 else "FAILED", took, found))
    return rows


def take(own, other):
    """Returns the next step of this lane, or the last step of the other lane; `None` if both are empty."""
    try:
        return own.popleft() if own else other.pop()
    except IndexError:
        return None


def run(name, settings):
    print(f"{name} …", flush=True)
    began = time.monotonic()
    command = ["make", name, *(f"{key}={value}" for key, value in settings.items())]
    if name in {step for step, _, _ in COMPUTE}:
        command = ["nice", "-n", "19", *command]
    with open(LOGS / f"{name}.log", "w") as log:
        code = subprocess.run(command, cwd=ROOT, env=environment(), stdout=log, stderr=subprocess.STDOUT).returncode
    return code, time.monotonic() - began


def environment():
    """Returns the environment without the flags of the calling make, which do not apply to the steps."""
    return {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}


def table(rows, took):
    lines = []
    for name, settings, verdict, seconds, figures in rows:
        said = " ".join(f"{key}={value}" for key, value in settings.items())
        lines.append(f"{'make ' + name + ' ' + said:<44} {verdict:<8} {seconds:>6.0f} s")
        lines += [f"    {figure}" for figure in figures]
    passed = sum(verdict == "passed" for _, _, verdict, _, _ in rows)
    lines.append(f"{passed} of {len(rows)} passed, in {took / 60:.1f} min; the whole output is in target/long")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
