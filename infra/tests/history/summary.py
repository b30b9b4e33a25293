"""The figures of a run, as a table."""

from collections import Counter

from record import name


def table(history, violations):
    states = Counter(row["st"] for row in history.rows.values())
    reasons = Counter(r.get("reason") for r in history.rows.values() if r["st"] == "dead_letter")
    broken = Counter(violation.rule for violation in violations)
    answered = sorted(a["took_ms"] for a in history.answers if a["status"] is not None)
    lines = [
        ("seed", history.run["seed"]),
        ("requests", len(history.sent)),
        # A delivery has the number `delivery.attempt`, or `delivery`.
        ("deliveries", len({(*name(r), str(r["delivery"]).split(".")[0]) for r in history.sent})),
        ("events", len(history.events)),
        ("acknowledged", len(history.acked & history.events.keys())),
        ("done", states.pop("done", 0)),
    ]
    states.pop("dead_letter", None)
    lines += [("copies quarantined", len(history.set_aside))] if history.set_aside else []
    lines += [(f"dead: {reason}", count) for reason, count in sorted(reasons.items(), key=str)]
    innocent = sum(
        row["st"] == "dead_letter" and history.events.get(event) not in ("poison", "permanent")
        for event, row in history.rows.items()
    )
    lines += [("dead: innocent", innocent)] if innocent else []
    lines += [(f"left {state}", count) for state, count in sorted(states.items())]
    lines += [
        ("effects applied", sum(arrival["applied"] for arrival in history.downstream)),
        ("calls downstream", len(history.downstream)),
    ]
    lines += sorted(history.run["done_to_it"].items())
    if answered:
        lines += [
            ("answer p50, ms", answered[len(answered) // 2]),
            ("answer p99, ms", answered[len(answered) * 99 // 100]),
            ("answer p100, ms", answered[-1]),
        ]
    lines += [(f"received by {one}, ended by {other}", count) for (one, other), count in sorted(history.hands.items())]
    lines += [("processed by both", history.shared)] if history.hands else []
    lines += [("took, s", history.run["took_s"])]
    rules = ["lost", "stuck", "duplicate_effect", "missing_effect", "double_outcome", "stale_commit", "leak"]
    if history.approvals:
        lines.append(("approvals", len(history.approvals)))
        rules += ["unapproved", "approval"]
    if history.planted:
        lines.append(("attributes planted", len(history.planted)))
        rules += ["forgotten", "panic"]
    lines += [(rule, broken.pop(rule, 0)) for rule in rules]
    lines += sorted(broken.items())
    width = max(len(label) for label, _ in lines)
    return "\n".join(f"{label.ljust(width)}  {value}" for label, value in lines)
