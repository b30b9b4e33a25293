"""The history of a run, read from the files in its folder.

    run.json          the limits, the planted secrets, and the injected faults
    sent.jsonl        every request: at, source, id, delivery, sha, kind, valid, and its role: an
                      `event`, signed by its provider; `forged`; a `copy`, which has the
                      signature of a captured request; a `handshake`, which is not an event
    answers.jsonl     the answer to each request: at, source, id, delivery, status or null, took_ms
    downstream.jsonl  every request to the downstream: at, action, key, source, id, sha, answer, applied
    writes.jsonl      every write of a state row that the table applied, as recorded by a proxy,
                      with the number of the process that wrote it
    deaths.jsonl      every process that was killed or stopped: at, process, how
    processes.jsonl   every observed process: process, release
    planted.jsonl     every attribute that simulates a later release in a state row, and that neither
                      release here knows: pk, attribute, value
    approvals.jsonl   every approval of a held event: at, source, id, run, hold, who
    functions.jsonl   every line that a function logged: function, text
    table.jsonl       every item of the table at the end
    queue.json        the number of remaining messages, by queue

This module and judge.py share no code with the program that they check.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field

STATE_ROW = "M"
ENDS = {"done", "dead_letter"}
QUARANTINED = "quarantined"


@dataclass
class History:
    run: dict
    sent: list = field(default_factory=list)
    answers: list = field(default_factory=list)
    downstream: list = field(default_factory=list)
    writes: list = field(default_factory=list)
    deaths: list = field(default_factory=list)
    processes: list = field(default_factory=list)
    planted: list = field(default_factory=list)
    approvals: list = field(default_factory=list)
    logs: list = field(default_factory=list)
    table: list = field(default_factory=list)
    queues: dict = field(default_factory=dict)

    def __post_init__(self):
        # Sources to which a stranger replayed captured requests.
        self.copied = {r["source"] for r in self.sent if role(r) == "copy"}
        # The rows of events that run, and of copies that were quarantined and do not run.
        self.rows, self.set_aside = {}, {}
        for item in self.table:
            event = event_of(item["pk"])
            if event and item["sk"] == STATE_ROW:
                aside = item["st"] == QUARANTINED and event[0] in self.copied
                (self.set_aside if aside else self.rows)[event] = item
        # The genuine events and their kinds: {(source, id): kind}
        self.events = {name(r): r["kind"] for r in self.sent if r["valid"]}
        self.forged = {name(r) for r in self.sent if role(r) == "forged"} - self.events.keys()
        self.bodies = defaultdict(set)
        for request in self.sent:
            if request["valid"]:
                self.bodies[name(request)].add(request["sha"])
        roles = {(r["source"], r["id"], r["delivery"]): role(r) for r in self.sent}
        # Requests that were answered with 2xx, and requests that were answered with 4xx, by role.
        self.accepted, self.refused = defaultdict(set), defaultdict(set)
        for answer in self.answers:
            if answer["status"] is None:
                continue
            of = roles.get((answer["source"], answer["id"], answer["delivery"]), "forged")
            if 200 <= answer["status"] < 300:
                self.accepted[of].add(name(answer))
            elif 400 <= answer["status"] < 500:
                self.refused[of].add(name(answer))
        self.acked, self.accepted_forgeries = self.accepted["event"], self.accepted["forged"]
        self.arrivals = defaultdict(list)
        for arrival in self.downstream:
            self.arrivals[name(arrival)].append(arrival)
        # The times of the approvals of each event, by run.
        self.approved = defaultdict(lambda: defaultdict(list))
        for approval in self.approvals:
            self.approved[name(approval)][approval["run"]].append(approval["at"])
        self.by_row = defaultdict(list)
        for write in self.writes:
            event = event_of(write["pk"])
            if event:
                self.by_row[event].append(write)
        self.dead = defaultdict(list)
        for death in self.deaths:
            self.dead[death["process"]].append(death["at"])
        self.releases = {process["process"]: process["release"] for process in self.processes}
        # Events by the releases that wrote their rows: {(release that received, release that ended): count}
        self.hands = Counter(pair for writes in self.by_row.values() for pair in self.pairs(writes))
        # The number of events that more than one release processed.
        self.shared = sum(len(self.triers(writes)) > 1 for writes in self.by_row.values())
        # Each log line that is a JSON object, with the function that wrote it.
        self.lines = [
            (line["function"], parsed)
            for line in self.logs
            if isinstance(parsed := parse(line["text"]), dict)
        ]

    def pairs(self, writes):
        """The releases that received and ended an event, if both are known."""
        caught = {self.releases.get(w["by"]) for w in writes if w.get("operation") == "PutItem"}
        ended = {self.releases.get(w["by"]) for w in writes if w["epoch"] is not None and w["after"]["st"] in ENDS}
        return {(one, other) for one in caught - {None} for other in ended - {None}}

    def triers(self, writes):
        """The releases that claimed an event."""
        return {self.releases.get(w["by"]) for w in writes if "ADD epoch" in w["update"]} - {None}


def read(folder):
    return History(
        run=json.loads((folder / "run.json").read_text()),
        sent=lines(folder / "sent.jsonl"),
        answers=lines(folder / "answers.jsonl"),
        downstream=lines(folder / "downstream.jsonl"),
        writes=lines(folder / "writes.jsonl"),
        deaths=lines(folder / "deaths.jsonl"),
        processes=lines(folder / "processes.jsonl"),
        planted=lines(folder / "planted.jsonl"),
        approvals=lines(folder / "approvals.jsonl"),
        logs=lines(folder / "functions.jsonl"),
        table=lines(folder / "table.jsonl"),
        queues=json.loads((folder / "queue.json").read_text()),
    )


def lines(path):
    with path.open() as file:
        return [json.loads(line) for line in file if line.strip()]


def name(record):
    return record["source"], record["id"]


def role(request):
    """The role of a request. Older histories have no role and say only whether a request is genuine."""
    return request.get("role", "event" if request["valid"] else "forged")


def event_of(pk):
    """`E#stripe-main#evt_1` is the event ("stripe-main", "evt_1")."""
    parts = pk.split("#", 2)
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == "E" else None


def parse(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def fields(line):
    """The fields of a log line, which are at its top level or under `fields`."""
    return {**line, **line.get("fields", {})}
