"""Checks the history of a run: python3 infra/tests/history FOLDER

Prints a table of the run, and every violation with its event. The exit code is 1 if there is a
violation.
"""

import sys
from pathlib import Path

import judge
import record
import summary


def main(folder):
    history = record.read(Path(folder))
    violations = judge.judge(history)
    print(summary.table(history, violations), flush=True)
    for violation in violations[:50]:
        print(f"{violation.rule}: {violation.event}: {violation.text}")
    if len(violations) > 50:
        print(f"and {len(violations) - 50} more")
    return 1 if violations else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
