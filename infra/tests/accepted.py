"""Findings of scanners that infra/accepted.yaml accepts, each with its reason.

An entry without a finding is also reported, so that the file stays correct.
"""

from dataclasses import dataclass
from pathlib import Path

import yaml

ACCEPTED = Path(__file__).parents[1] / "accepted.yaml"


@dataclass(frozen=True)
class Finding:
    """A finding of a tool about one place: a resource, or a statement of a policy."""

    rule: str
    place: str
    text: str


def unaccepted(tool: str, found: list[Finding], path: Path = ACCEPTED) -> list[str]:
    """Returns a sentence for each finding without an entry, and for each entry without a finding."""
    entries = [entry for entry in read(path) if entry["tool"] == tool]
    open_ones = [finding for finding in found if not any(fits(entry, finding) for entry in entries)]
    stale = [entry for entry in entries if not any(fits(entry, finding) for finding in found)]
    return sorted({f"{finding.place}: {finding.text} ({finding.rule})" for finding in open_ones}) + [
        f"{path.name}: {tool} no longer reports {entry['rule']}{at(entry)}; remove the entry" for entry in stale
    ]


def fits(entry: dict, finding: Finding) -> bool:
    return entry["rule"] == finding.rule and entry.get("place", finding.place) == finding.place


def at(entry: dict) -> str:
    return f" in {entry['place']}" if "place" in entry else ""


def read(path: Path) -> list[dict]:
    entries = yaml.safe_load(path.read_text()) or []
    for entry in entries:
        if not {"tool", "rule", "why"} <= set(entry) <= {"tool", "rule", "why", "place"}:
            raise ValueError(f"{path.name}: an entry needs tool, rule and why, and may have place; this one has {', '.join(map(str, entry))}")
        if not str(entry["why"]).strip():
            raise ValueError(f"{path.name}: {entry['rule']} has no reason; fill in why")
    return entries
