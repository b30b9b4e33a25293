"""Compares the calls of the functions during the test suites with the permissions of their roles.

    MITT_RIGHTS_RECORD=FOLDER cargo test …
    python3 infra/tests/rights.py FOLDER

The local stack denies a call that its role does not permit, and this script reports it. The script also reports a
permission that no call used, unless infra/tests/unused_rights.toml gives a reason for it.
"""

import sys
import tomllib
from pathlib import Path

UNUSED = Path(__file__).with_name("unused_rights.toml")


def complaints(folder: Path, table: Path = UNUSED) -> list[str]:
    """Returns a sentence for each fault."""
    granted, used, denied = recorded(folder)
    if not granted:
        return [f"{folder} has no record of permissions"]
    listed = {}
    found = [f"{call}: the role does not permit it" for call in sorted(denied)]
    for entry in tomllib.loads(table.read_text())["unused"]:
        if not entry["reason"].strip():
            found.append(f"{entry['role']}: an unused permission needs a reason")
        for part in entry["parts"]:
            listed[f"{entry['role']} {part}"] = entry["reason"]
    for right in sorted(granted - used - listed.keys()):
        found.append(f"{right}: no call used it; remove it from the template, or list it in {table.name} with a reason")
    for right in sorted(listed.keys() & used):
        found.append(f"{right}: listed as unused, but a call used it; remove it from {table.name}")
    for right in sorted(listed.keys() - granted):
        found.append(f"{right}: listed as unused, but no role has it; remove it from {table.name}")
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
    print("\n".join(wrong) or "each call is permitted, and each permission is used or has a reason")
    sys.exit(bool(wrong))
