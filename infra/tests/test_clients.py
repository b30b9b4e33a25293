"""The clients of infra/clients sign as botocore does, and keep the protocol of workers. Both pass the same tests."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from botocore.credentials import Credentials

ROOT = Path(__file__).parents[2]
HERE = ROOT / "infra/tests/clients"
CLIENTS = ROOT / "infra/clients"
sys.path.insert(0, str(HERE))

from work_api import KEYS, StandIn, authorization  # noqa: E402

needs_npm = pytest.mark.skipif(not shutil.which("npm"), reason="npm is missing, so the compiler is not installed")
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "AWS_ACCESS_KEY_ID": KEYS.access_key,
    "AWS_SECRET_ACCESS_KEY": KEYS.secret_key,
    "AWS_SESSION_TOKEN": KEYS.token,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
EVENT = {"lease": "lease-1", "lease_ms": 60_000, "id": "01A", "key": "s:1", "source": "s", "trace": "00-1-1-01"}
GO = (200, {"go": True, "key": "wh_1", "lease_ms": 60_000})
DONE = ("end", {"lease": "lease-1", "effect": "ticket", "result": "done", "note": "T-1"})
FINISHED = ("finish", {"lease": "lease-1", "outcome": "done"})


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Returns the TypeScript client without types, after the check of its types."""
    folder = tmp_path_factory.mktemp("client")
    compile_types(folder, CLIENTS / "mitt-worker.ts")
    (folder / "package.json").write_text('{"type": "module"}')
    return folder / "mitt-worker.js"


def compile_types(folder, file):
    """Checks the types, and writes JavaScript. Node 20 cannot remove types; later versions remove only what has no code."""
    strict = ["--strict", "--noUnusedLocals", "--erasableSyntaxOnly", "--types", "node", "--typeRoots", HERE / "node_modules/@types"]
    modules = ["--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", "--rewriteRelativeImportExtensions"]
    compiler = [HERE / "node_modules/.bin/tsc", *strict, *modules, "--outDir", folder, file]
    done = subprocess.run(compiler, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(params=["python", pytest.param("typescript", marks=needs_npm)])
def program(request):
    if request.param == "python":
        return [sys.executable, HERE / "worker.py"]
    return ["node", HERE / "worker.mjs", request.getfixturevalue("compiled")]


@contextmanager
def working(program, stand_in):
    process = subprocess.Popen(
        [*program, stand_in.url, "triage"], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        said = process.communicate(timeout=30)[0]
        assert stand_in.wrong == [], said


def event(kind, **fields):
    return EVENT | {"type": kind, "body": '{"text": "café"}'} | fields


def work(program, kind, **answers):
    """Returns what a worker says about one event, until it finishes it."""
    with StandIn([event(kind)], **answers) as stand_in, working(program, stand_in):
        assert stand_in.wait("finish"), stand_in.requests
    return stand_in.said("begin", "end", "finish")


TRACKERS = {
    "python": """
class Busy(Exception):
    seconds = 1

def search(key): return None

def create(title, reference, timeout):
    assert (title, reference) == ("It fails", "wh_1") and timeout <= 50
    return "T-1"
""",
    "ts": """
export const search = async (key: string): Promise<string | undefined> => undefined;
export const create = async (title: string, key: string, signal: AbortSignal): Promise<string | undefined> => {
  if (title !== "It fails" || key !== "wh_1" || signal.aborted) throw new Error("wrong");
  return "T-1";
};
""",
}


@pytest.mark.parametrize("language", ["python", pytest.param("ts", marks=needs_npm)])
def test_the_examples_of_the_page_run(tmp_path, language):
    """With a tracker that knows no ticket, and an earlier attempt that may have opened one."""
    page = (CLIENTS / "README.md").read_text()
    [example] = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    opened = event("issues", body='{"issue": {"title": "It fails"}}')
    with StandIn([opened], begin=[in_doubt(-1), GO]) as stand_in:
        example = example.replace("https://a1b2c3.execute-api.eu-west-1.amazonaws.com", stand_in.url)
        with working(in_folder(tmp_path, language, example), stand_in) as process:
            assert stand_in.wait("finish"), process.communicate(process.terminate())

    asked = {"effect": "open-ticket", "keys": "ask", "plan": {"summary": "It fails"}, "lease": "lease-1"}
    ended = {"effect": "open-ticket", "result": "done", "note": "T-1", "lease": "lease-1"}
    said = [("begin", asked), ("begin", asked | {"asked": "did_not"}), ("end", ended), FINISHED]
    assert stand_in.said("begin", "end", "finish") == said


@pytest.mark.parametrize("language", ["python", pytest.param("ts", marks=needs_npm)])
def test_the_workers_of_the_page_run_when_pasted(tmp_path, language):
    page = (CLIENTS.parent / "docs/agents.md").read_text()
    example = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    assert len([line for line in example.splitlines() if line.strip()]) <= 20
    opened = event("issues", body='{"issue": {"title": "It fails"}}')
    with StandIn([opened], begin=[GO]) as stand_in:
        assert "http://127.0.0.1:8787" in example
        example = example.replace("http://127.0.0.1:8787", stand_in.url)
        with working(in_folder(tmp_path, language, example), stand_in) as process:
            assert stand_in.wait("finish"), process.communicate(process.terminate())

    asked = {"effect": "open-ticket", "keys": "honoured", "plan": {"summary": "It fails"}, "lease": "lease-1"}
    ended = {"effect": "open-ticket", "result": "done", "note": "T-1", "lease": "lease-1"}
    assert stand_in.said("begin", "end", "finish") == [("begin", asked), ("end", ended), FINISHED]


def in_folder(folder, language, example):
    """Writes a program with its tracker and the client, and returns its command."""
    if language == "python":
        shutil.copy(CLIENTS / "mitt_worker.py", folder)
        (folder / "tracker.py").write_text(TRACKERS[language])
        (folder / "triage.py").write_text(example)
        return [sys.executable, folder / "triage.py"]
    shutil.copy(CLIENTS / "mitt-worker.ts", folder)
    (folder / "tracker.ts").write_text(TRACKERS[language])
    (folder / "triage.ts").write_text(example)
    (folder / "package.json").write_text('{"type": "module"}')
    compile_types(folder, folder / "triage.ts")
    return ["node", folder / "triage.js"]


@needs_npm
@pytest.mark.parametrize(
    "url",
    ["https://api.example.com/work/triage/next", "http://127.0.0.1:8080/a%20b/(c)/work/triage/end", "https://x.test/prod/work/q/begin"],
)
@pytest.mark.parametrize("body", ["{}", '{"note": "café ✓"}', ""])
@pytest.mark.parametrize("token", [None, "a/session+token=="])
def test_botocore_signs_like_the_typescript_client(compiled, url, body, token):
    keys = Credentials("AKIDEXAMPLE", "secret/+key", token)
    given = {"accessKeyId": keys.access_key, "secretAccessKey": keys.secret_key} | ({"sessionToken": token} if token else {})
    request = {"url": url, "body": body, "region": "eu-south-2", "credentials": given, "at": "2026-11-28T07:08:09.123Z"}
    run = ["node", HERE / "sign.mjs", compiled]
    done = subprocess.run(run, input=json.dumps([request]), capture_output=True, text=True, check=True, timeout=60)

    headers = json.loads(done.stdout)[0]

    assert headers["x-amz-date"] == "20261128T070809Z"
    assert headers.get("x-amz-security-token") == token
    host = url.split("/")[2]
    assert headers["authorization"] == authorization(url, headers | {"host": host}, body.encode(), "eu-south-2", keys)


def test_the_region_is_the_one_in_the_address_of_the_api():
    sys.path.insert(0, str(CLIENTS))
    from mitt_worker import Api

    assert Api("https://a1b2c3.execute-api.eu-south-2.amazonaws.com/", "triage").region == "eu-south-2"
    assert Api("https://a1b2c3.execute-api.eu-south-2.amazonaws.com", "triage", region="us-east-1").region == "us-east-1"


def test_a_worker_finishes_an_event(program):
    assert work(program, "plain.ok") == [FINISHED]


@pytest.mark.parametrize(
    "kind, end",
    [
        ("retry", {"outcome": "retry", "error": "try later", "after_s": 90}),
        ("permanent", {"outcome": "permanent", "error": "not for us"}),
        ("unknown", {"outcome": "unknown", "error": "who knows"}),
        ("other", {"outcome": "permanent", "error": "no handler for the type plain.other"}),
    ],
)
def test_a_handler_can_end_the_attempt_in_another_way(program, kind, end):
    assert work(program, f"plain.{kind}") == [("finish", {"lease": "lease-1"} | end)]


def test_the_text_of_an_unexpected_error_stays_in_the_worker(program):
    [(_, end)] = work(program, "plain.crash")

    assert end in [{"lease": "lease-1", "outcome": "retry", "error": name} for name in ("ValueError", "TypeError")]


def test_a_worker_reads_bytes(program):
    fields = {"body": None, "body_base64": "eyJ0ZXh0IjogImNhZsOpIn0="}
    given = {name: value for name, value in event("plain.ok", **fields).items() if value is not None}
    with StandIn([given]) as stand_in, working(program, stand_in):
        assert stand_in.wait("finish")

    assert stand_in.said("finish") == [FINISHED]


def test_a_worker_asks_for_as_many_events_as_it_has_room_for(program):
    events = [event("plain.slow"), event("plain.ok")]
    with StandIn(events) as stand_in, working(program, stand_in):
        assert stand_in.wait("finish", 2)

    asked = [fields for _, fields in stand_in.said("next")]
    assert asked[0] == {"worker": "test-1", "max": 2}
    # While one event runs, there is room for one more.
    assert asked[1]["max"] == 1


def test_a_lease_is_extended_until_the_handler_ends(program):
    extended = [(200, {"lease_ms": 3_000})]
    with StandIn([event("plain.slow", lease_ms=3_000)], extend=extended) as stand_in, working(program, stand_in):
        assert stand_in.wait("finish")
        before = len(stand_in.said("extend"))
        time.sleep(2.5)

    assert before in (2, 3, 4) and len(stand_in.said("extend")) == before
    assert stand_in.said("finish") == [FINISHED]


def test_a_worker_does_not_extend_after_a_refusal(program):
    refused = [(422, {"error": "max_hold", "message": "the event was held for the longest time"})]
    with StandIn([event("plain.slow", lease_ms=4_000)], extend=refused) as stand_in, working(program, stand_in):
        assert stand_in.wait("finish")

    assert len(stand_in.said("extend")) == 1


@pytest.mark.parametrize("op", ["next", "finish"])
def test_a_request_without_an_answer_is_repeated_as_it_is(program, op):
    failures = [(503, {"error": "internal"}), (429, {"error": "throttled"}), (200, None)]
    with StandIn([event("plain.ok")], **{op: failures}) as stand_in, working(program, stand_in):
        assert stand_in.wait("finish", 3 if op == "finish" else 1)

    asked = [(at, fields) for at, name, fields in stand_in.requests if name == op][:3]
    assert asked[0][1] == asked[1][1] == asked[2][1]
    first, second = (later[0] - earlier[0] for earlier, later in zip(asked, asked[1:]))
    assert 0.5 <= first < 1.5 and 1 <= second < 2.5


def test_a_caller_without_rights_ends(program):
    forbidden = [(403, {"error": "forbidden", "message": "the role is not in workers"})]
    with StandIn(next=forbidden) as stand_in, working(program, stand_in) as process:
        assert process.wait(timeout=30) != 0
        assert "403 forbidden: the role is not in workers" in process.stdout.read()

    assert len(stand_in.requests) == 1


def test_an_effect_is_declared_before_the_call_and_recorded_after_it(program):
    begun = {"lease": "lease-1", "effect": "ticket", "keys": "honoured", "plan": {"summary": "one"}}

    assert work(program, "effect.done", begin=[GO]) == [("begin", begun), DONE, FINISHED]


def test_an_effect_that_is_done_is_not_repeated(program):
    begun, *rest = work(program, "effect.done", begin=[(200, {"done": True, "note": "T-1"})])

    assert rest == [FINISHED]


@pytest.mark.parametrize("kind, result, outcome", [("crash", "unknown", "retry"), ("refused", "refused", "permanent"), ("not", "not", "retry")])
def test_a_failed_call_is_recorded(program, kind, result, outcome):
    begun, end, finish = work(program, f"effect.{kind}", begin=[GO])

    assert (end[1]["result"], finish[1]["outcome"]) == (result, outcome)


def test_an_effect_that_is_refused_ends_the_event(program):
    begun, finish = work(program, "effect.done", begin=[(200, {"refused": True, "note": "no such project"})])

    assert finish[1] == {"lease": "lease-1", "outcome": "permanent", "error": "no such project"}


def in_doubt(seconds):
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + seconds))
    return 200, {"in_doubt": True, "key": "wh_1", "since": at, "ask_from": at}


def test_an_effect_in_doubt_is_searched_for(program):
    begun, end, finish = work(program, "effect.ask.found", begin=[in_doubt(-1)])

    assert end[1]["result"] == "done" and end[1]["note"] == "T-0"
    assert finish == FINISHED


def test_an_effect_that_the_search_does_not_find_begins_again(program):
    first, second, end, finish = work(program, "effect.ask.missing", begin=[in_doubt(-1), GO])

    assert second[1] == first[1] | {"asked": "did_not"}
    assert (end, finish) == (DONE, FINISHED)


def test_a_search_waits_until_no_call_can_arrive(program):
    begun, finish = work(program, "effect.ask.found", begin=[in_doubt(40)])

    assert finish[1]["outcome"] == "retry" and 35 <= finish[1]["after_s"] <= 41


def test_an_effect_in_doubt_without_a_search_is_left_to_an_operator(program):
    begun, finish = work(program, "effect.ignored", begin=[in_doubt(-1)])

    assert finish[1]["outcome"] == "unknown"


def test_a_short_lease_is_extended_before_an_effect(program):
    with StandIn([event("effect.done", lease_ms=15_000)], extend=[(200, {"lease_ms": 60_000})], begin=[GO]) as stand_in:
        with working(program, stand_in):
            assert stand_in.wait("finish")

    assert [op for op, _ in stand_in.said("extend", "begin", "end", "finish")] == ["extend", "begin", "end", "finish"]


def test_a_call_ends_before_the_lease_of_its_intent(program):
    """The lease was long when the worker asked, but the intent has an earlier end. An extension does not count for it."""
    short = (200, {"go": True, "key": "wh_1", "lease_ms": 10_500})

    *_, finish = work(program, "effect.done", begin=[short])

    assert finish[1]["outcome"] == "retry"
    assert "too short" in finish[1]["error"]


def test_a_worker_says_nothing_more_after_the_end_of_its_lease(program):
    lost = [(409, {"error": "lease_lost", "message": "the lease ended"})]
    with StandIn([event("effect.done"), event("plain.ok", lease="lease-2")], begin=lost) as stand_in:
        with working(program, stand_in):
            assert stand_in.wait("begin") and stand_in.wait("finish")
            time.sleep(1)

    assert stand_in.said("end", "finish") == [("finish", {"lease": "lease-2", "outcome": "done"})]


def test_an_effect_that_is_held_leaves_the_event(program):
    held = [(200, {"held": True, "hold": "01B", "rule": "large", "expires": "2026-11-29T12:00:00.000Z"})]
    with StandIn([event("effect.planned"), event("plain.ok", lease="lease-2")], begin=held) as stand_in:
        with working(program, stand_in):
            assert stand_in.wait("begin") and stand_in.wait("finish")
            time.sleep(1)

    assert stand_in.said("end", "finish") == [("finish", {"lease": "lease-2", "outcome": "done"})]


def test_an_approved_plan_is_handed_to_the_handler(program):
    approved = {"summary": "approved", "approved": True}
    given = event("effect.planned", effects={"ticket": {"state": "planned", "key": "wh_1", "note": "", "plan": approved}})
    with StandIn([given], begin=[GO]) as stand_in, working(program, stand_in):
        assert stand_in.wait("finish")

    begun, end, finish = stand_in.said("begin", "end", "finish")
    assert begun[1]["plan"] == approved
    assert end[1]["note"] == "approved" and finish == FINISHED


def test_a_handler_without_an_approved_plan_makes_its_own(program):
    begun, end, finish = work(program, "effect.planned", begin=[GO])

    assert begun[1]["plan"] == {"summary": "own"} and end[1]["note"] == "own"


def test_a_plan_of_the_handler_is_not_replaced_by_the_approved_one(program):
    """Mitt must see what the handler does, so that it holds another plan again."""
    given = event("effect.done", effects={"ticket": {"state": "planned", "plan": {"summary": "approved", "approved": True}}})
    with StandIn([given], begin=[GO]) as stand_in, working(program, stand_in):
        assert stand_in.wait("finish")

    assert stand_in.said("begin")[0][1]["plan"] == {"summary": "one"}


def test_a_denied_effect_ends_the_event(program):
    denied = (200, {"denied": True, "rule": "no-mail", "note": "it applies to each event"})

    begun, finish = work(program, "effect.done", begin=[denied])

    error = "rule no-mail denies effect ticket: it applies to each event"
    assert finish[1] == {"lease": "lease-1", "outcome": "permanent", "error": error}


def test_a_dry_run_skips_the_call(program):
    begun, finish = work(program, "effect.done", begin=[(200, {"dry_run": True, "rule": "trial"})])

    assert finish == FINISHED
