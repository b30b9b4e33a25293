"""Compares what the functions asked of the services during the suites with what their roles permit.

    MITT_RIGHTS_RECORD=FOLDER cargo test …
    python3 infra/tests/rights.py FOLDER

A call that its role does not permit is denied by the local stack, and named here. A right that no call used is named
as well, unless infra/tests/unused_rights.toml says why it is there.
"""

import sys
import tomllib
from pathlib import Path

UNUSED = Path(__file__).with_name("unused_rights.toml")


def complaints(folder: Path, table: Path = UNUSED) -> list[str]:
    """What is wrong, one sentence each."""
    granted, used, denied = recorded(folder)
    if not granted:
        return [f"{folder} has no record of any right"]
    listed = {}
    found = [f"{call}: the role does not permit it" for call in sorted(denied)]
    for entry in tomllib.loads(table.read_text())["unused"]:
        if not entry["reason"].strip():
            found.append(f"{entry['role']}: an unused right needs a reason")
        for part in entry["parts"]:
            listed[f"{entry['role']} {part}"] = entry["reason"]
    for right in sorted(granted - used - listed.keys()):
        found.append(f"{right}: no call used it; take it out of the template, or list it with its reason")
    for right in sorted(listed.keys() & used):
        found.append(f"{right}: it is listed as unused, and a call used it")
    for right in sorted(listed.keys() - granted):
        found.append(f"{right}: it is listed as unused, and no role has it")
    return found


def recorded(folder: Path) -> tuple[set[str], set[str], set[str]]:
    lines = {"granted": set(), "used": set(), "denied": set()}
    for file in folder.glob("*.txt"):
        for line in file.read_text().splitlines():
            kind, _, what = line.partition(" ")
            lines[kind].add(what)
    return lines["granted"], lines["used"], lines["denied"]


if __name__ == "__main__":
    wrong = complaints(Path(sys.argv[1]))
    print("\n".join(wrong) or "each call is permitted, and each right is used or has its reason")
    sys.exit(bool(wrong))
