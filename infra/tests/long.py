"""All that takes long, and one table of what was found.

Each step is a target of the Makefile, and its whole output stands in target/long. Those that mostly
wait, because they play hours of trouble to real processes, run beside those that compute, and
whoever has nothing left takes the last step of the other. A step that fails does not keep the others
from being run; the exit code says whether all of them held.
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


def whole_lines(pattern):
    """The lines of the output that a pattern is found in."""

    def figures(text):
        return [line.strip() for line in text.splitlines() if re.search(pattern, line)]

    return figures


def storm(text):
    """The judge's table, without what was done to the run."""
    wanted = (
        "deliveries events acknowledged done effects answer took lost stuck duplicate_effect missing_effect"
        " double_outcome stale_commit leak late"
    ).split()
    rows = re.findall(r"^(\S[^:]*?)  +(-?\d+)$", text, re.M)
    kept = [(label, value) for label, value in rows if label.split()[0] in wanted or label.startswith("dead: ")]
    return [f"{label:<28} {value:>10}" for label, value in kept]


def ablations(text):
    """What the judge found broken in each run that lacked a protection."""
    rows, name = [], "?"
    for line in text.splitlines():
        if started := re.search(r"(?:^| )(no-[\w-]+): SEED=", line):
            name = started[1]
        found = re.match(r"(lost|stuck|unsent|duplicate_effect|missing_effect|double_outcome|stale_commit|leak)  +([1-9]\d*)$", line)
        if found:
            rows.append(f"{name:<28} {found[1]:<20} {found[2]:>8}")
    return rows


# What the table is made of: a target, its settings, and what of its output is a figure.
COMPUTE = [
    ("models", {}, whole_lines(r"\d+ cases, \d+ states")),
    ("simulate", {"EVENTS": "1000000"}, whole_lines(r" at most | events, |  (ok|BROKEN|BITES NOTHING)$|hours passed")),
    ("clauses", {}, whole_lines(r"SURVIVED|conditions, \d+ clauses cut")),
    ("mutants", {"COUNT": "40"}, whole_lines(r"SURVIVED|changes of")),
    ("properties", {"CASES": "1000000"}, whole_lines(r"^test result|cases")),
    ("fuzz", {"SECONDS": "30"}, whole_lines(r"runs, nothing found|failed;")),
]
# What is unoptimised in a storm takes from the simulation beside it what it needs to end in time.
QUICK = {"PROFILE": "simulation"}
WAIT = [
    ("chaos", {"DELIVERIES": "50000"} | QUICK, storm),
    ("chaos-ablations", QUICK, ablations),
    ("chaos-cells", QUICK, storm),
    ("dev-chaos", {}, whole_lines(r"^test result: .* [1-9]\d* passed")),
    ("foreign-signers", {}, whole_lines(r"^test result: .* [1-9]\d* passed")),
]


def main():
    wanted = sys.argv[1:]
    unknown = set(wanted) - {name for name, _, _ in COMPUTE + WAIT}
    if unknown:
        sys.exit(f"there is no step {', '.join(sorted(unknown))}")
    LOGS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    chosen = [deque(step for step in steps if not wanted or step[0] in wanted) for steps in (COMPUTE, WAIT)]
    order = [step[0] for steps in chosen for step in steps]
    with ThreadPoolExecutor() as pool:
        lanes = [pool.submit(run_all, own, other) for own, other in (chosen, chosen[::-1])]
        rows = sorted((row for lane in lanes for row in lane.result()), key=lambda row: order.index(row[0]))
    print(table(rows, time.monotonic() - began))
    sys.exit(any(verdict != "held" for _, _, verdict, _, _ in rows))


def run_all(own, other):
    rows = []
    while step := take(own, other):
        name, settings, figures = step
        code, took = run(name, settings)
        found = figures((LOGS / f"{name}.log").read_text(errors="replace"))
        rows.append((name, settings, "held" if code == 0 else "FAILED", took, found))
    return rows


def take(own, other):
    """The next step of one's own, or the last of the other's; none is taken twice."""
    try:
        return own.popleft() if own else other.pop()
    except IndexError:
        return None


def run(name, settings):
    print(f"{name} …", flush=True)
    began = time.monotonic()
    command = ["make", name, *(f"{key}={value}" for key, value in settings.items())]
    # What this one was called with is not for those that it calls.
    environment = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    with open(LOGS / f"{name}.log", "w") as log:
        code = subprocess.run(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT).returncode
    return code, time.monotonic() - began


def table(rows, took):
    lines = []
    for name, settings, verdict, seconds, figures in rows:
        said = " ".join(f"{key}={value}" for key, value in settings.items())
        lines.append(f"{'make ' + name + ' ' + said:<44} {verdict:<8} {seconds:>6.0f} s")
        lines += [f"    {figure}" for figure in figures]
    held = sum(verdict == "held" for _, _, verdict, _, _ in rows)
    lines.append(f"{held} of {len(rows)} held, in {took / 60:.1f} min; the whole output is in target/long")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
