"""Removes each clause of each condition expression of the ledger, and expects a test to fail.

If no test needs a clause, a later change could remove it by mistake. The script takes the conditions that the
ledger tests send. A test removes the clause before it sends the condition to DynamoDB, so no rebuild is needed.
The arguments are words. With words, only the conditions that contain one of them are tried.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The timeout in seconds of the suite without changes.
PATIENCE = 900

# Clauses whose removal no test can detect, with the reason.
FENCE = "st = :processing AND epoch = :epoch AND own = :own"
ANSWER = "sv = :sv AND (attribute_not_exists(tew) OR tew <> :id)"
FULL = " AND (attribute_not_exists(ten) OR ten < :most)"
EQUAL = {
    # For DynamoDB, a missing attribute is unequal to every value. This is not documented.
    (f"{FENCE} AND (attribute_not_exists(fx.#n) OR fx.#n.s <> :done)", f"{FENCE} AND fx.#n.s <> :done"),
    (ANSWER, "sv = :sv AND tew <> :id"),
    (ANSWER + FULL, "sv = :sv AND tew <> :id" + FULL),
}


def main():
    only = [re.compile(rf"\b{re.escape(word)}\b") for word in sys.argv[1:]]
    suite = built()
    with tempfile.TemporaryDirectory() as folder:
        seen = Path(folder, "seen")
        began = time.monotonic()
        if not passes(suite, {"MITT_SEEN": str(seen)}):
            sys.exit("the suite fails without any change; fix it first")
        # A test that hangs without a clause counts as failed. A busy machine is as slow with the clause as without it.
        patience = 3 * (time.monotonic() - began)
        senders = by_condition(seen.read_text())
        conditions = sorted(senders)
        if only:
            conditions = [condition for condition in conditions if any(word.search(condition) for word in only)]
        cuts = [(condition, cut) for condition in conditions for cut in sorted(without_one(condition))]
        cuts = [cut for cut in cuts if cut not in EQUAL]
        survived = []
        for number, (condition, cut) in enumerate(cuts, 1):
            file = Path(folder, "cut")
            file.write_text(f"{condition}\n{cut}\n")
            # The tests that send the condition run first. The other tests run only if none of these fails.
            cut_here = {"MITT_CUT": str(file)}
            killed = not (passes(suite, cut_here, ["--exact", *senders[condition]], patience) and passes(suite, cut_here, (), patience))
            print(f"{number}/{len(cuts)} {'detected' if killed else 'SURVIVED'}: {condition}  ->  {cut}", flush=True)
            if not killed:
                survived.append((condition, cut))
    print(f"{len(conditions)} conditions, {len(cuts)} clauses cut, {len(cuts) - len(survived)} detected, {len(survived)} not")
    sys.exit(bool(survived))


def by_condition(seen):
    """Returns the tests that send each condition."""
    senders = {}
    for line in seen.splitlines():
        test, condition = line.split("\t")
        senders.setdefault(condition, []).append(test)
    return senders


def without_one(expression):
    """Returns the expression once without each of its clauses, simple or in brackets. Empty for a single clause."""
    inner = expression[1:-1] if is_group(expression) else expression
    for word in (" OR ", " AND "):
        parts = split(inner, word)
        if len(parts) == 1:
            continue
        cuts = set()
        for place, part in enumerate(parts):
            for cut in without_one(part) | {""}:
                kept = parts[:place] + ([cut] if cut else []) + parts[place + 1 :]
                joined = word.join(kept)
                cuts.add(f"({joined})" if is_group(expression) and len(kept) > 1 else joined)
        return cuts
    return {""}


def is_group(expression):
    """Returns whether the last bracket closes the first."""
    if not expression.startswith("("):
        return False
    depth = 0
    for place, character in enumerate(expression):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place == len(expression) - 1
    return False


def split(expression, word):
    """Splits at the words outside brackets."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(expression):
        depth += (character == "(") - (character == ")")
        if depth == 0 and expression.startswith(word, place):
            parts.append(expression[start:place])
            start = place + len(word)
    return [*parts, expression[start:]]


def built(tree=ROOT, target=ROOT / "target", arguments=("--workspace", "--test", "ledger")):
    """Returns the executable and the working folder of the test suite that cargo builds for the arguments."""
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json", *arguments]
    command += ["--target-dir", target]
    run = subprocess.run(command, cwd=tree, check=True, stdout=subprocess.PIPE, text=True)
    for message in map(json.loads, run.stdout.splitlines()):
        if message.get("profile", {}).get("test") and message.get("executable"):
            return message["executable"], Path(message["manifest_path"]).parent
    sys.exit("cargo built no test suite")


def passes(suite, variables=(), arguments=(), patience=PATIENCE):
    """Returns whether all tests pass. Stops at the first failure."""
    executable, folder = suite
    run = subprocess.Popen(
        [executable, *arguments],
        cwd=folder,
        env=os.environ | dict(variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    timer = threading.Timer(patience, run.kill)
    timer.start()
    try:
        failed = any(line.rstrip().endswith("... FAILED") for line in run.stdout)
        return not failed and run.wait() == 0
    finally:
        timer.cancel()
        run.kill()
        run.wait()


if __name__ == "__main__":
    main()
