"""The rules for every history. Each rule checks the history on its own and reports violating events."""

import math
from collections import Counter, defaultdict, namedtuple
from itertools import product

from record import ENDS, event_of, fields, name

Violation = namedtuple("Violation", "rule event text")

# The states in which an attempt can end.
SETTLED = {"done", "failed", "dead_letter"}


def judge(history):
    return [violation for rule in RULES for violation in rule(history)]


def found(rule, event, text):
    shown = ":".join(event) if isinstance(event, tuple) else event
    return Violation(rule, shown, text)


# ------------------------------------------------------------------ nothing is lost


def every_acknowledged_event_has_a_row(history):
    """Includes events that were answered as a handshake: for the sender, a 2xx is an acknowledgement."""
    for event in sorted(history.acked - history.rows.keys()):
        yield found("lost", event, "it was answered with 2xx, but has no row")


def every_row_comes_to_an_end(history):
    for event, row in sorted(history.rows.items()):
        if row["st"] not in ENDS:
            yield found("stuck", event, f"its row is still {row['st']}, attempt {row['att']}")
        elif row["st"] == "dead_letter" and not row.get("reason"):
            yield found("stuck", event, "it is a dead letter without a reason")


def nothing_waits_in_a_spill(history):
    for queue in history.run["must_be_empty"]:
        if left := history.queues.get(queue, 0):
            yield found("stuck", queue, f"the queue still has {left} messages")


# ------------------------------------------------------------------ each sender is served


def no_genuine_request_is_refused(history):
    for event in sorted(history.refused["event"]):
        yield found("refused", event, "it is genuine, but was answered with 4xx")


def no_handshake_is_refused(history):
    for event in sorted(history.refused["handshake"]):
        yield found("handshake", event, "a handshake was answered with 4xx")


def no_handshake_is_an_event(history):
    for event in sorted(history.accepted["handshake"] & (history.rows.keys() | history.set_aside.keys())):
        yield found("handshake", event, "a handshake has a row")


# ------------------------------------------------------------------ nothing is made up


def every_row_has_a_sender(history):
    for event, row in sorted(history.rows.items()):
        if event not in history.events:
            yield found("unsent", event, "it has a row, but no sender sent it with a valid signature")
        elif row.get("sha") not in history.bodies[event]:
            yield found("wrong_body", event, "the hash in its row differs from the hash of the sent body")


def every_forgery_is_refused(history):
    for event in sorted(history.accepted_forgeries):
        yield found("unsent", event, "a forged request was answered with 2xx")


def what_is_set_aside_is_not_done(history):
    for event in sorted(history.set_aside.keys() & history.arrivals.keys()):
        if event not in history.rows:
            yield found("unsent", event, "the downstream received an event that was quarantined")


def every_effect_is_of_what_was_sent(history):
    for event, arrivals in sorted(history.arrivals.items()):
        if event not in history.events:
            yield found("unsent", event, "the downstream received an event that no sender sent")
            continue
        for arrival in arrivals:
            if arrival["sha"] is not None and arrival["sha"] not in history.bodies[event]:
                yield found("wrong_body", event, "the downstream received a different body than was sent")


# ------------------------------------------------------------------ one outcome per run


def settlement(write):
    """Whether a worker ends its attempt with this write, which then has an epoch."""
    return write["epoch"] is not None and write["after"]["st"] in SETTLED


def claim(write):
    return "ADD epoch" in write["update"]


def an_epoch_is_claimed_once_and_settled_once(history):
    for event, writes in sorted(history.by_row.items()):
        claims = Counter(w["after"]["epoch"] for w in writes if claim(w))
        settled = Counter(w["epoch"] for w in writes if settlement(w))
        for epoch, times in claims.items():
            if times > 1:
                yield found("double_outcome", event, f"{times} claims have epoch {epoch}")
        for epoch, times in settled.items():
            if times > 1:
                yield found("double_outcome", event, f"epoch {epoch} has {times} outcomes")


def no_worker_writes_after_a_newer_claim(history):
    for event, writes in sorted(history.by_row.items()):
        for write in writes:
            if write["epoch"] is not None and write["epoch"] != write["after"]["epoch"]:
                yield found(
                    "stale_commit",
                    event,
                    f"{write['after']['st']} was written for epoch {write['epoch']} when the row "
                    f"was at {write['after']['epoch']}",
                )


def a_run_ends_once(history):
    for event, writes in sorted(history.by_row.items()):
        ends = Counter()
        for write in writes:
            # A write that ends an attempt has its epoch; a write that gives an event up has the state that it saw.
            if write["after"]["st"] in ENDS and (write["epoch"] is not None or write["seen"]):
                ends[write["after"]["run"]] += 1
        for run, times in ends.items():
            if times > 1:
                yield found("double_outcome", event, f"run {run} ended {times} times")


def the_logs_tell_one_outcome_for_an_attempt(history):
    told = defaultdict(list)
    for _, line in history.lines:
        line = fields(line)
        # A line that gives an event up has no epoch; the rules over the writes cover it.
        if line.get("outcome") in SETTLED and "epoch" in line:
            told[line["event.key"], line["epoch"], line["run"]].append(line["outcome"])
    for (event, epoch, _), outcomes in sorted(told.items()):
        if len(outcomes) > 1:
            text = f"the logs have the outcomes {' and '.join(outcomes)} for epoch {epoch}"
            yield found("double_outcome", event, text)


def a_row_says_what_was_written_last(history):
    for event, row in sorted(history.rows.items()):
        if row["st"] != "done":
            continue
        last = [w for w in history.by_row[event] if settlement(w) and w["epoch"] == row["epoch"]]
        if not last or last[-1]["after"]["st"] != "done":
            yield found("double_outcome", event, "it is done, but no worker of its epoch wrote that")


# ------------------------------------------------------------------ effects


def what_is_done_was_done_once(history):
    for event, row in sorted(history.rows.items()):
        for action in history.run["actions"].get(event[0], []):
            arrivals = [a for a in history.arrivals[event] if a["action"] == action]
            applied = sum(a["applied"] for a in arrivals)
            if row["st"] == "done" and applied == 0:
                yield found("missing_effect", event, f"it is done, but {action} was never applied")
            if applied > 1:
                yield found("duplicate_effect", event, f"{action} was applied {applied} times")


def keys_are_of_one_event(history):
    keys, owners = defaultdict(set), defaultdict(set)
    for event, arrivals in history.arrivals.items():
        for arrival in arrivals:
            keys[event, arrival["action"]].add(arrival["key"])
            owners[arrival["key"]].add((event, arrival["action"]))
    for (event, action), of_event in sorted(keys.items()):
        if len(of_event) > 1:
            yield found("key", event, f"{action} was requested with {len(of_event)} keys")
    for key, events in sorted(owners.items()):
        if len(events) > 1:
            event = sorted(events)[0][0]
            yield found("key", event, f"{len(events)} effects have the key {key}")


# ------------------------------------------------------------------ approvals


def a_held_event_is_approved_before_its_effect(history):
    for event, kind in sorted(history.events.items()):
        if kind != "held":
            continue
        for arrival in history.arrivals[event]:
            approved = history.approved[event][arrival["run"]]
            if not any(at <= arrival["at"] for at in approved):
                yield found("unapproved", event, f"{arrival['action']} was requested before an approval")


def an_event_is_approved_once_in_a_run(history):
    for event, runs in sorted(history.approved.items()):
        if runs and history.events.get(event) != "held":
            yield found("approval", event, "it was approved, but no rule holds it")
        for run, approved in runs.items():
            if len(approved) > 1:
                yield found("approval", event, f"it was approved {len(approved)} times in run {run}")


# ------------------------------------------------------------------ limits


def attempts_have_a_limit(history):
    limit = history.run["attempts"]
    for event, row in sorted(history.rows.items()):
        if row["att"] > limit:
            yield found("attempts", event, f"{row['att']} attempts, the limit is {limit}")


def only_what_deserves_it_is_given_up(history):
    reasons = {"poison": "crash_loop", "permanent": "permanent"}
    for event, row in sorted(history.rows.items()):
        if row["st"] not in ENDS:
            continue
        wanted = reasons.get(history.events.get(event))
        reason = row.get("reason") if row["st"] == "dead_letter" else None
        unlucky = reason == "crash_loop" and killed_with(event, history) >= history.run["crashes"]
        if wanted is None and reason is not None and not unlucky:
            yield found("innocent", event, f"the event is valid, but a dead letter: {reason}")
        elif wanted is not None and reason != wanted:
            yield found("poison", event, f"it should be a dead letter for {wanted}, but is {reason or 'done'}")


def killed_with(event, history):
    """The number of processes that died while they worked on the event.

    A process works on an event from its claim until the next write of another process. An innocent
    event whose processes are killed that often looks like an event that kills them.
    """
    writes = history.by_row.get(event, [])
    killed = 0
    for number, write in enumerate(writes):
        if not claim(write):
            continue
        epoch = write["after"]["epoch"]
        rest = writes[number + 1 :]
        if any(settlement(later) and later["epoch"] == epoch for later in rest):
            continue
        others = (w["at"] for w in rest if w["by"] != write["by"] and (claim(w) or w["after"]["st"] in ENDS))
        until = next(others, math.inf)
        # The process may already be dead when the proxy has the table's answer.
        killed += any(write["at"] - 1_000 <= at <= until for at in history.dead[write["by"]])
    return killed


def a_killer_kills_a_few_times(history):
    limit = history.run["crashes"]
    for event, kind in sorted(history.events.items()):
        deaths = sum(a["answer"] == "killed" for a in history.arrivals[event])
        # A worker that recorded the outcome before it was killed did not die of the event.
        deaths -= sum(write["after"]["st"] == "failed" for write in history.by_row.get(event, []))
        if kind == "poison" and deaths > limit:
            yield found("poison", event, f"it killed {deaths} workers, the limit is {limit}")


def answers_come_in_time(history):
    limit = history.run["answer_ms"]
    for answer in history.answers:
        if answer["status"] is not None and answer["took_ms"] > limit:
            event = answer["source"], answer["id"]
            yield found("late", event, f"answered after {answer['took_ms']} ms")


def what_is_due_is_settled_in_time(history):
    """An event that recovers hours after the last fault is late, even if nothing is lost."""
    limit, calm = history.run.get("recover_ms"), history.run.get("calm_at")
    if limit is None or calm is None:
        return
    received = {name(request): request["at"] for request in reversed(history.sent) if request["valid"]}
    for event in sorted(history.acked & history.rows.keys()):
        ended = [w["at"] for w in history.by_row[event] if w["after"]["st"] in ENDS]
        if not ended:
            # Other rules cover an event that never ended, or whose end the proxy did not see.
            continue
        # Its attempts scheduled the times of its retries.
        retries = [w["after"].get("due") or 0 for w in history.by_row[event]]
        due = max([calm, received[event], *retries])
        if ended[0] > due + limit:
            yield found("overdue", event, f"settled {(ended[0] - due) / 1000:.0f} s after it was due")


# ------------------------------------------------------------------ releases


def what_is_not_known_is_kept(history):
    for planted in history.planted:
        event, attribute = event_of(planted["pk"]), planted["attribute"]
        if history.rows.get(event, {}).get(attribute) != planted["value"]:
            yield found("forgotten", event, f"its row has lost {attribute}, an attribute of a later release")


def releases_have_met(history):
    """A run in which the releases did not share events proves nothing."""
    releases = sorted(set(history.releases.values()))
    if len(releases) < 2:
        return
    for pair in product(releases, repeat=2):
        if not history.hands[pair]:
            yield found("unmet", pair, "no event was received by the first and ended by the second release")
    if not history.shared:
        yield found("unmet", tuple(releases), "no event was processed by both releases")
    if not history.planted:
        yield found("unmet", tuple(releases), "no unknown attribute was planted")


# ------------------------------------------------------------------ secrets


def nothing_secret_is_told(history):
    canaries = history.run["canaries"]
    for line in history.logs:
        for canary in canaries:
            if canary in line["text"]:
                yield found("leak", line["function"], f"its log contains {canary[:6]}…")
        if "panicked" in line["text"]:
            yield found("panic", line["function"], line["text"][:200])
    for item in history.table:
        for attribute, value in item.items():
            # Only the attribute of the body may contain the body.
            if attribute == "b":
                continue
            for text in strings(value):
                for canary in canaries:
                    if canary in text:
                        text = f"attribute {attribute} contains {canary[:6]}…"
                        yield found("leak", item["pk"], text)


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


RULES = [
    every_acknowledged_event_has_a_row,
    no_genuine_request_is_refused,
    no_handshake_is_refused,
    no_handshake_is_an_event,
    every_row_comes_to_an_end,
    nothing_waits_in_a_spill,
    every_row_has_a_sender,
    every_forgery_is_refused,
    what_is_set_aside_is_not_done,
    every_effect_is_of_what_was_sent,
    an_epoch_is_claimed_once_and_settled_once,
    no_worker_writes_after_a_newer_claim,
    a_run_ends_once,
    the_logs_tell_one_outcome_for_an_attempt,
    a_row_says_what_was_written_last,
    what_is_done_was_done_once,
    keys_are_of_one_event,
    a_held_event_is_approved_before_its_effect,
    an_event_is_approved_once_in_a_run,
    attempts_have_a_limit,
    only_what_deserves_it_is_given_up,
    a_killer_kills_a_few_times,
    answers_come_in_time,
    what_is_due_is_settled_in_time,
    what_is_not_known_is_kept,
    releases_have_met,
    nothing_secret_is_told,
]
