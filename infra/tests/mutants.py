"""Mutates the code that decides, one small change at a time, and expects a test to fail.

cargo-mutants lists the mutants. Its own runner finishes the whole suite for each mutant, which takes
hours; here the first failing test ends the run. The script changes a copy of the repository.
"""

import json
import random
import re
import subprocess
import sys
from pathlib import Path

from clauses import ROOT, built, passes

TREE = ROOT / "target/mutants/tree"
# A separate target folder. In the folder of the project, cargo would mix the builds of the copy and of the project.
TARGET = ROOT / "target/mutants/target"
TOOL = ROOT / ".tools/bin/cargo-mutants"

# The files that decide about events and calls.
FILES = [
    *(f"shared/src/inbox/ledger/{name}.rs" for name in "transition transition/erase transition/order transition/plan transition/replay transition/retention transition/sweep transition/sync transition/work_index claim settle sweep sweep/decision receive order order/line replay plan plan/read plan/write".split()),
    *(
        f"shared/src/{name}.rs"
        for name in (
            "base/backoff delivery/breaker delivery/breaker/health delivery/breaker/state delivery/rates"
            " sources/ordering inbox/outcome"
        ).split()
    ),
]

# The timeout in seconds, longer than a suite takes. A test that hangs counts as failed.
PATIENCE = 120

# The minimum share of mutants that a test must detect.
LEAST = 0.95

# Mutants that do not change the behavior, with the reason.
EQUAL = {}


def main():
    judges = {Judge.UNITS: Judge("-p shared --lib"), Judge.LEDGER: Judge("--workspace --test ledger")}
    if sys.argv[1:] == ["build"]:
        copy()
        for judge in judges.values():
            judge.suite()
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    mutants = [mutant for mutant in listed() if name(mutant) not in EQUAL]
    known = len(mutants)
    if 0 < count < known:
        mutants = sorted(random.Random(seed).sample(mutants, count), key=lambda mutant: mutant["name"])
    copy()
    for judge in judges.values():
        if not judge.is_content():
            sys.exit("a suite fails without any change; fix it first")
    found = {"detected": 0, "SURVIVED": 0, "does not build": 0}
    for number, mutant in enumerate(mutants, 1):
        verdict = tried(mutant, judges)
        found[verdict] += 1
        print(f"{number}/{len(mutants)} {verdict}: {mutant['name']}", flush=True)
    built_ones = found["detected"] + found["SURVIVED"]
    share = found["detected"] / max(built_ones, 1)
    print(f"{built_ones} changes of {known}, {found['detected']} detected, {found['SURVIVED']} not: {share:.1%}")
    sys.exit(share < LEAST)


def listed():
    command = [TOOL, "mutants", "--list", "--json", "-p", "shared"]
    for file in FILES:
        command += ["-f", file]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)


def name(mutant):
    """Returns the name of a mutant without its line number, which can change."""
    return re.sub(r":\d+:\d+:", ":", mutant["name"])


def copy():
    """Copies the tracked files in their current state. cargo does not rebuild an unchanged file."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    for file in filter(None, files.split("\0")):
        source, target = ROOT / file, TREE / file
        if source.is_file() and not (target.is_file() and target.read_bytes() == source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())


def tried(mutant, judges):
    """Returns whether a test detects the mutant. The unit tests of the file run first, if it has any."""
    file = TREE / mutant["file"]
    whole = file.read_text()
    file.write_text(changed(whole, mutant))
    try:
        for kind, judge in judges.items():
            if kind == Judge.UNITS and "#[cfg(test)]" not in whole:
                continue
            verdict = judge.verdict(module(mutant["file"]))
            if verdict != "SURVIVED":
                return verdict
        return "SURVIVED"
    finally:
        file.write_text(whole)


def module(file):
    """Returns the module of a file, which is the prefix of its tests."""
    below = Path(file).relative_to("shared/src").parts[1:]
    if below[0] == "ledger" and len(below) > 1:
        below = below[1:]
    return below[0].removesuffix(".rs")


def changed(text, mutant):
    start, end = (place(text, mutant["span"][key]) for key in ("start", "end"))
    return text[:start] + mutant["replacement"] + text[end:]


def place(text, where):
    lines = text.splitlines(keepends=True)
    return sum(map(len, lines[: where["line"] - 1])) + where["column"] - 1


class Judge:
    """A test suite of the copy."""

    UNITS, LEDGER = "units", "ledger"

    def __init__(self, arguments):
        self.arguments = arguments.split()

    def suite(self):
        return built(TREE, TARGET, self.arguments)

    def verdict(self, module=None):
        """Returns the result of the suite. The tests of the module run first, because they detect most mutants."""
        try:
            suite = self.suite()
        except subprocess.CalledProcessError:
            return "does not build"
        if module and not passes(suite, arguments=[module + "::"], patience=PATIENCE):
            return "detected"
        return "SURVIVED" if passes(suite, patience=PATIENCE) else "detected"

    def is_content(self):
        return self.verdict() == "SURVIVED"


if __name__ == "__main__":
    main()
