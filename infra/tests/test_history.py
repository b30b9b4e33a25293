"""The check accepts a correct history, and reports each planted fault."""

import copy
import hashlib
import re
import sys
from itertools import product
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "history"))

import judge  # noqa: E402
import record  # noqa: E402
import summary  # noqa: E402

CANARY = "whsec_canary"
IDS = {"one": "plain", "two": "plain", "unlucky": "plain", "killer": "poison", "bad": "permanent"}


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def write(event, epoch, state, update="SET st", seen=False, after_epoch=None, at=0, by=1):
    after = {"st": state, "epoch": epoch if after_epoch is None else after_epoch, "run": 0}
    claims = "ADD epoch" in update
    return {
        "at": at,
        "by": by,
        "pk": f"E#shop#{event}",
        "update": update,
        "epoch": None if claims or seen else epoch,
        "seen": seen,
        "after": after,
    }


def sound():
    """Five events: one needs a retry and arrives twice, two have workers that die, one is rejected."""
    claim = "SET st = :processing ADD epoch :one"
    sent = [("one", 0), ("one", 1), ("two", 0), ("unlucky", 0), ("killer", 0), ("bad", 0)]
    rows = {"one": ("done", 2, None), "two": ("done", 1, None)}
    rows |= {"unlucky": ("dead_letter", 5, "crash_loop")}
    rows |= {"killer": ("dead_letter", 4, "crash_loop"), "bad": ("dead_letter", 1, "permanent")}
    arrivals = [("one", 503, False), ("one", 200, True), ("two", "dropped", True), ("bad", 422, False)]
    arrivals += [("two", 200, False)] + [("killer", "killed", False)] * 4
    request = lambda id, n: {"source": "shop", "id": id, "delivery": n}  # noqa: E731
    return {
        "run": {
            "seed": 1,
            "took_s": 2,
            "attempts": 12,
            "crashes": 4,
            "answer_ms": 2800,
            "calm_at": 1_000,
            "recover_ms": 90_000,
            "actions": {"shop": ["http"]},
            "canaries": [CANARY],
            "must_be_empty": ["SpillQueue"],
            "done_to_it": {"kills": 3},
        },
        "sent": [request(id, n) | {"at": 0, "sha": sha(id), "kind": IDS[id], "valid": True} for id, n in sent]
        + [request("forged", 0) | {"at": 0, "sha": sha("x"), "kind": "plain", "valid": False}],
        "answers": [request(id, n) | {"at": 1, "status": 200, "took_ms": 20} for id, n in sent]
        + [request("forged", 0) | {"at": 1, "status": 401, "took_ms": 3}],
        "downstream": [
            {"at": 2, "action": "http", "source": "shop", "id": id, "key": f"wh_{id}", "sha": sha(id)}
            | {"answer": answer, "applied": applied}
            for id, answer, applied in arrivals
        ],
        "writes": [
            write("one", 1, "processing", claim),
            write("one", 1, "failed"),
            write("one", 2, "processing", claim),
            write("one", 2, "done"),
            write("two", 1, "processing", claim),
            write("two", 1, "done"),
            *[write("killer", epoch, "processing", claim) for epoch in (1, 2, 3, 4)],
            write("killer", 4, "dead_letter", seen=True),
            write("unlucky", 1, "processing", claim, at=5_000, by=11),
            write("unlucky", 1, "failed", at=5_100, by=11),
            *[write("unlucky", n, "processing", claim, at=n * 10_000, by=10 + n) for n in (2, 3, 4, 5)],
            write("unlucky", 5, "dead_letter", seen=True, at=60_000, by=None),
            write("bad", 1, "processing", claim),
            write("bad", 1, "dead_letter"),
        ],
        "deaths": [{"at": n * 10_000 + 100, "process": 10 + n, "how": "killed"} for n in (2, 3, 4, 5)],
        "logs": [
            {
                "function": "processor",
                "text": '{"level":"INFO","fields":{"event.key":"shop:one","epoch":2,"run":0,"outcome":"done"}}',
            },
            {
                "function": "processor",
                "text": '{"level":"ERROR","fields":{"event.key":"shop:killer","outcome":"dead_letter"}}',
            },
        ],
        "table": [
            {"pk": f"E#shop#{id}", "sk": "M", "st": st, "epoch": epoch, "run": 0, "att": epoch}
            | {"sha": sha(id), "reason": reason, "b": CANARY}
            for id, (st, epoch, reason) in rows.items()
        ],
        "queues": {"WorkQueue": 2, "SpillQueue": 0},
    }


def judged(history):
    return {v.rule for v in judge.judge(record.History(**history))}


def with_two_releases():
    """Four more events, each received by one of two processes and ended by one of them."""
    history = sound()
    history["processes"] = [{"process": 100, "release": "before"}, {"process": 101, "release": "ours"}]
    claim = "SET st = :processing ADD epoch :one"
    for catcher, ender in product((100, 101), repeat=2):
        id = f"of-{catcher}-{ender}"
        request = {"source": "shop", "id": id, "delivery": 0}
        history["sent"].append(request | {"at": 0, "sha": sha(id), "kind": "plain", "valid": True})
        history["answers"].append(request | {"at": 1, "status": 200, "took_ms": 20})
        arrival = {"at": 2, "action": "http", "source": "shop", "id": id, "key": f"wh_{id}", "sha": sha(id)}
        history["downstream"].append(arrival | {"answer": 200, "applied": True})
        history["writes"] += [
            write(id, 0, "received", "", seen=True, by=catcher) | {"operation": "PutItem"},
            write(id, 1, "processing", claim, by=catcher),
            write(id, 1, "failed", by=catcher),
            write(id, 2, "processing", claim, by=ender),
            write(id, 2, "done", by=ender),
        ]
        item = {"pk": f"E#shop#{id}", "sk": "M", "st": "done", "epoch": 2, "run": 0, "att": 2, "sha": sha(id)}
        history["table"].append(item | {"later_code": "keeps this"})
        history["planted"] = [{"pk": item["pk"], "attribute": "later_code", "value": "keeps this"}]
    return history


def with_a_stranger():
    """A handshake, a captured request that arrives three times, and a request signed by a handshake."""
    history = sound()
    request = lambda source, id, n: {"source": source, "id": id, "delivery": n}  # noqa: E731
    told = [
        (request("shop", "greeting", 0), "handshake", "webhook_id=5", 200),
        (request("shop", "one", "copy-0"), "copy", "one", 200),
        (request("shop", "one", "copy-1"), "copy", "one, renamed", 200),
        (request("shop", "one", "copy-2"), "copy", "one, altered", 401),
        (request("shop", "signed-by-a-handshake", 0), "forged", "a token", 401),
    ]
    for sent, role, body, status in told:
        known = {"at": 0, "sha": sha(body), "kind": "plain", "valid": False, "role": role}
        history["sent"].append(sent | known)
        history["answers"].append(sent | {"at": 1, "status": status, "took_ms": 5})
    aside = {"pk": "E#shop#renamed~0123", "sk": "M", "st": "quarantined", "epoch": 0, "run": 0, "att": 0}
    history["table"].append(aside | {"sha": sha("one")})
    return history


def with_approvals():
    """Two held events that were approved, one of them again after a replay."""
    history = sound()
    for id, run in (("large", 0), ("larger", 1)):
        request = {"source": "shop", "id": id, "delivery": 0}
        history["sent"].append(request | {"at": 0, "sha": sha(id), "kind": "held", "valid": True})
        history["answers"].append(request | {"at": 1, "status": 200, "took_ms": 20})
        arrival = {"at": 9, "action": "http", "source": "shop", "id": id, "run": run, "key": f"wh_{id}", "sha": sha(id)}
        history["downstream"].append(arrival | {"answer": 200, "applied": True})
        history["writes"] += [write(id, 1, "processing", "SET st = :processing ADD epoch :one"), write(id, 1, "done")]
        item = {"pk": f"E#shop#{id}", "sk": "M", "st": "done", "epoch": 1, "run": run, "att": 1}
        history["table"].append(item | {"sha": sha(id)})
    approval = {"source": "shop", "hold": "0a1b", "who": "ann"}
    history["approvals"] = [approval | {"at": at, "id": id, "run": run} for at, id, run in APPROVED]
    return history


APPROVED = [(3, "large", 0), (3, "larger", 0), (8, "larger", 1)]


def row(history, id):
    return next(item for item in history["table"] if item["pk"].endswith(id))


def lost(history):
    history["table"] = [item for item in history["table"] if not item["pk"].endswith("two")]


def stuck(history):
    row(history, "two")["st"] = "processing"


def without_a_reason(history):
    row(history, "bad")["reason"] = None


def left_in_the_spill(history):
    history["queues"]["SpillQueue"] = 1


def duplicate(history):
    history["downstream"].append(history["downstream"][1])


def missing(history):
    history["downstream"] = [a for a in history["downstream"] if a["id"] != "two"]


def stale(history):
    history["writes"].append(write("one", 1, "failed", after_epoch=2))


def stale_intent(history):
    history["writes"].append(write("one", 1, "processing", after_epoch=2))


def double_outcome(history):
    history["writes"].append(write("two", 1, "done"))


def double_claim(history):
    history["writes"].append(write("two", 1, "processing", "SET st = :processing ADD epoch :one"))


def two_ends(history):
    history["writes"].append(write("two", 2, "dead_letter", seen=True))


def told_twice(history):
    history["logs"].append(history["logs"][0])


def done_by_nobody(history):
    history["writes"] = [w for w in history["writes"] if not (w["pk"].endswith("two") and w["after"]["st"] == "done")]


def wrong_body(history):
    history["downstream"][0]["sha"] = sha("other")


def wrong_body_in_the_row(history):
    row(history, "one")["sha"] = sha("other")


def effect_of_a_forgery(history):
    history["downstream"].append(history["downstream"][1] | {"id": "forged", "key": "wh_forged"})


def row_of_a_forgery(history):
    history["table"].append(row(history, "one") | {"pk": "E#shop#forged"})


def accepted_forgery(history):
    history["answers"][-1]["status"] = 200


def new_key(history):
    history["downstream"][1]["key"] = "wh_other"


def shared_key(history):
    for arrival in history["downstream"]:
        arrival["key"] = "wh_same"


def too_many_attempts(history):
    row(history, "one")["att"] = 13


def innocent_dead(history):
    row(history, "two").update(st="dead_letter", reason="crash_loop")


def spared(history):
    history["deaths"].pop()


def dead_later(history):
    history["deaths"][1]["at"] = 45_000


def dead_before(history):
    history["deaths"][1]["at"] = 25_000


def dead_afterwards(history):
    history["writes"].append(write("unlucky", 5, "processing", at=50_500, by=15))
    history["writes"].append(write("unlucky", 5, "failed", at=50_600, by=15))


def surviving_poison(history):
    row(history, "killer").update(st="done", reason=None)


def too_many_deaths(history):
    history["downstream"] += [history["downstream"][-1]]


def late(history):
    history["answers"][0]["took_ms"] = 2801


def leaked(history):
    history["logs"].append({"function": "catcher", "text": f"no match for {CANARY}"})


def leaked_in_a_row(history):
    row(history, "one")["h"] = [f"1|failed|1|||{CANARY}"]


def panicked(history):
    history["logs"].append({"function": "catcher", "text": "thread 'main' panicked at src/lib.rs"})


def settled_late(history):
    """Nothing is lost, but the system took two minutes, and the limit is one and a half."""
    two_done = next(w for w in history["writes"] if w["pk"].endswith("two") and w["after"]["st"] == "done")
    two_done["at"] = 1_000 + 120_000


def settled_long_after_its_retry(history):
    settled_late(history)
    failed = write("two", 1, "failed")
    failed["after"]["due"] = 20_000
    history["writes"].append(failed)


def forgotten(history):
    history["planted"] = [{"pk": "E#shop#one", "attribute": "later_code", "value": "keeps this"}]


def unmet(history):
    history["processes"] = [{"process": 1, "release": "ours"}, {"process": 2, "release": "before"}]


def hidden_by_a_handshake(history):
    """The event was treated as a handshake: answered with 2xx, but not stored."""
    lost(history)


def copy_runs_again(history):
    row(history, "renamed~0123")["st"] = "done"


def copy_is_done(history):
    arrival = history["downstream"][1] | {"id": "renamed~0123", "key": "wh_renamed"}
    history["downstream"].append(arrival)


def copy_in_its_place(history):
    row(history, "one")["sha"] = sha("one, altered")


def copy_takes_its_place(history):
    """The genuine event is quarantined instead of the copy."""
    row(history, "two").update(st="quarantined")


def genuine_refused(history):
    history["answers"][0]["status"] = 401


def signed_by_a_handshake(history):
    history["answers"][-1]["status"] = 200


def greeting_refused(history):
    next(a for a in history["answers"] if a["id"] == "greeting")["status"] = 401


def greeting_kept(history):
    history["table"].append(row(history, "renamed~0123") | {"pk": "E#shop#greeting"})


def set_aside_without_a_copy(history):
    history["sent"] = [r for r in history["sent"] if r.get("role") != "copy"]
    history["answers"] = [a for a in history["answers"] if not str(a["delivery"]).startswith("copy")]


FAULTS = [
    (lost, "lost"),
    (stuck, "stuck"),
    (without_a_reason, "stuck"),
    (left_in_the_spill, "stuck"),
    (duplicate, "duplicate_effect"),
    (missing, "missing_effect"),
    (stale, "stale_commit"),
    (stale_intent, "stale_commit"),
    (double_outcome, "double_outcome"),
    (double_claim, "double_outcome"),
    (two_ends, "double_outcome"),
    (told_twice, "double_outcome"),
    (done_by_nobody, "double_outcome"),
    (wrong_body, "wrong_body"),
    (wrong_body_in_the_row, "wrong_body"),
    (effect_of_a_forgery, "unsent"),
    (row_of_a_forgery, "unsent"),
    (accepted_forgery, "unsent"),
    (new_key, "key"),
    (shared_key, "key"),
    (too_many_attempts, "attempts"),
    (innocent_dead, "innocent"),
    (spared, "innocent"),
    (dead_later, "innocent"),
    (dead_before, "innocent"),
    (dead_afterwards, "innocent"),
    (surviving_poison, "poison"),
    (too_many_deaths, "poison"),
    (late, "late"),
    (leaked, "leak"),
    (leaked_in_a_row, "leak"),
    (panicked, "panic"),
    (settled_late, "overdue"),
    (settled_long_after_its_retry, "overdue"),
    (forgotten, "forgotten"),
    (unmet, "unmet"),
]


def not_approved(history):
    history["approvals"].pop(0)


def approved_later(history):
    history["approvals"][0]["at"] = 10


def approved_in_an_earlier_run(history):
    history["approvals"].pop()


def approved_twice(history):
    history["approvals"].append(history["approvals"][0] | {"who": "ben"})


def approved_without_a_hold(history):
    history["approvals"].append(history["approvals"][0] | {"id": "one"})


def ticket_opened_twice(history):
    history["downstream"].append(history["downstream"][-1])


APPROVALS = [
    (not_approved, "unapproved"),
    (approved_later, "unapproved"),
    (approved_in_an_earlier_run, "unapproved"),
    (approved_twice, "approval"),
    (approved_without_a_hold, "approval"),
    (ticket_opened_twice, "duplicate_effect"),
]


def test_a_sound_history_passes():
    history = sound()
    assert judge.judge(record.History(**history)) == []
    table = summary.table(record.History(**history), [])
    assert "effects applied" in table
    assert "dead: innocent    1" in table, table


STRANGERS = [
    (hidden_by_a_handshake, "lost"),
    (copy_runs_again, "unsent"),
    (copy_is_done, "unsent"),
    (copy_in_its_place, "wrong_body"),
    (copy_takes_its_place, "lost"),
    (genuine_refused, "refused"),
    (signed_by_a_handshake, "unsent"),
    (greeting_refused, "handshake"),
    (greeting_kept, "handshake"),
    (set_aside_without_a_copy, "stuck"),
]


def test_a_stranger_who_achieves_nothing_passes():
    history = record.History(**with_a_stranger())
    assert judge.judge(history) == []
    assert "copies quarantined  1" in summary.table(history, [])


@pytest.mark.parametrize("fault, rule", STRANGERS, ids=[fault.__name__ for fault, _ in STRANGERS])
def test_what_a_stranger_achieves_is_found(fault, rule):
    history = with_a_stranger()
    fault(history)
    assert rule in judged(history)


def test_events_that_were_approved_pass():
    history = record.History(**with_approvals())
    assert judge.judge(history) == []
    told = dict(re.split("  +", line) for line in summary.table(history, []).splitlines())
    assert (told["approvals"], told["unapproved"]) == ("3", "0")


@pytest.mark.parametrize("fault, rule", APPROVALS, ids=[fault.__name__ for fault, _ in APPROVALS])
def test_a_fault_of_an_approval_is_found(fault, rule):
    history = with_approvals()
    fault(history)
    assert rule in judged(history)


def test_two_releases_that_met_in_every_way_pass():
    history = record.History(**with_two_releases())
    assert judge.judge(history) == []
    told = dict(re.split("  +", line) for line in summary.table(history, []).splitlines())
    assert told["received by before, ended by ours"] == "1"
    assert (told["processed by both"], told["forgotten"]) == ("2", "0")


@pytest.mark.parametrize("catcher, ender", list(product((100, 101), repeat=2)))
def test_two_releases_that_did_not_meet_prove_nothing(catcher, ender):
    history = with_two_releases()
    for wrote in history["writes"]:
        if wrote["pk"].endswith(f"of-{catcher}-{ender}"):
            wrote["by"] = None
    assert judged(history) == {"unmet"}


def test_two_releases_that_never_tried_the_same_event_prove_nothing():
    history = with_two_releases()
    for wrote in history["writes"]:
        if wrote["by"] in (100, 101) and wrote["epoch"] is None and "ADD epoch" in wrote["update"]:
            wrote["by"] = None
    assert judged(history) == {"unmet"}


def test_an_event_whose_retry_is_due_late_is_not_overdue():
    history = sound()
    settled_late(history)
    retry = next(w for w in history["writes"] if w["pk"].endswith("two") and w["after"]["st"] == "processing")
    retry["after"]["due"] = 60_000
    assert judged(history) == set()


@pytest.mark.parametrize("fault, rule", FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_a_fault_is_found(fault, rule):
    history = copy.deepcopy(sound())
    fault(history)
    assert rule in judged(history)


def test_every_rule_can_fail():
    broken = set()
    for begun, faults in ((sound, FAULTS), (with_a_stranger, STRANGERS), (with_approvals, APPROVALS)):
        for fault, _ in faults:
            history = begun()
            fault(history)
            judged_so = record.History(**history)
            broken |= {rule.__name__ for rule in judge.RULES if list(rule(judged_so))}
    assert broken == {rule.__name__ for rule in judge.RULES}
