"""Events that wait for an approval: the page, the box of an event, and the decisions, which are about the hold that was shown."""

import functools
import http.server
import json
import re
import threading
import time
import urllib.request

import pytest
from access import judged
from changes import answer
from conftest import Cli, Process

SOURCES = """
schema = 1
[forward]
allow_loopback = true

[[source]]
name = "shop"
preset = "stripe"
[[source.action]]
kind = "http"
name = "refund"
url = "{url}/refunds"
sign = "none"
[[source.policy]]
name = "large-refund"
effect = "refund"
amount = {{ path = "data.object.amount", above = 5000 }}
decide = "hold"

[[source]]
name = "github-org"
preset = "github"
[[source.action]]
kind = "http"
name = "deploy"
url = "{url}/deploys"
sign = "none"
[[source.policy]]
name = "production"
where = [{{ path = "ref", exists = true }}]
decide = "hold"
expires = "40m"

[[source]]
name = "desk"
preset = "stripe"
[[source.action]]
kind = "pull"
name = "agent"
queue = "desk"
workers = ["arn:aws:iam::000000000000:role/local-worker"]
[[source.policy]]
name = "each-effect"
effect = "*"
decide = "hold"
"""

# What a worker declares. Its text is not markup, and the end of a long one is a part of it.
PLAN = {
    "summary": "thank the <b>customer</b>",
    "target": "cus_of_another",
    "amount": "7400.00",
    "sha256": "0a" * 32,
    "full": "\n".join(["a step"] * 700 + ["delete the account"]),
}


class Waiting:
    """A stack whose rules hold events, and the requests that its destination got."""

    def __init__(self, folder):
        self.got = got = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers.get("content-length") or 0))
                got.append(self.path)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (folder / "sources.toml").write_text(SOURCES.format(url=f"http://127.0.0.1:{server.server_port}"))
        self.cli = Cli(folder)
        self.dev = Process("dev", "--sources", "sources.toml", "--port", "0", cwd=folder)
        assert self.dev.find("Ready in", 60), "".join(self.dev.lines)

    def holds(self):
        return self.cli.json("hold", "list")["items"]

    def until(self, true):
        deadline = time.monotonic() + 30
        while not (found := true()):
            assert time.monotonic() < deadline, self.holds()
            time.sleep(0.1)
        return found

    def hold(self):
        """Sends a refund that a rule holds, and returns its hold."""
        known = {item["id"] for item in self.holds()}
        self.cli("send", "shop", "-t", "charge.refunded", "--set", "data.object.amount=7400")
        return self.until(lambda: [item for item in self.holds() if item["id"] not in known])[0]

    def declare(self, plan):
        """Lets a worker declare an effect, which a rule holds, and returns its hold."""
        self.cli("send", "desk", "-t", "charge.refunded")
        begun = self.until(lambda: self.cli.json("work", "next", "--queue", "desk").get("events"))[0]
        api = re.search(r"http://[\w.]+:\d+", "".join(self.dev.lines))[0]
        body = json.dumps({"lease": begun["lease"], "effect": "refund", "keys": "honoured", "plan": plan})
        # The local gateway verifies no signature, and takes the name of the role from it.
        head = {"authorization": "AWS4-HMAC-SHA256 Credential=local-worker/20260101/us-east-1/execute-api/aws4_request"}
        request = urllib.request.Request(f"{api}/work/desk/begin", body.encode(), head | {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            assert json.load(response)["held"]
        return self.until(lambda: [item for item in self.holds() if item["id"] == begun["id"]])[0]

    def status(self, id, status):
        self.until(lambda: self.cli.json("inbox", "inspect", id)["status"] == status)

    def move(self, id):
        """Rejects a hold and replays the event, which is then held again."""
        self.cli("hold", "reject", id, "-m", "not yet")
        plan = self.cli.json("replay", "plan", "--id", id, "-m", "again")["id"]
        self.cli("replay", "apply", plan, "--confirm", "1", "--no-wait", "-m", "again")
        self.until(lambda: id in {item["id"] for item in self.holds()})


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    stack = Waiting(tmp_path_factory.mktemp("approvals"))
    try:
        stack.hold()
        stack.cli("send", "github-org", "-t", "push")
        stack.until(lambda: len(stack.holds()) == 2)
        yield stack
    finally:
        stack.dev.stop()


@pytest.fixture(scope="module")
def reads(waiting, console_at):
    with console_at(waiting.cli.folder) as found:
        yield found


@pytest.fixture(scope="module")
def writes(waiting, console_at):
    with console_at(waiting.cli.folder, "--write") as found:
        yield found


@pytest.fixture
def look(tab_of, reads):
    return functools.partial(tab_of, *reads)


@pytest.fixture
def writer(tab_of, writes):
    return tab_of(*writes)


def values(look):
    """Waits until each row has the values that its rule read."""
    rows = look.page.locator("tbody tr")
    for row in range(rows.count()):
        rows.nth(row).locator("b.foreign").wait_for()
    return rows.all_inner_texts()


@pytest.mark.parametrize("width", [1280, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(look, waiting, scheme, width):
    tab = look(scheme, width)
    for where in ["approvals", f"event/{waiting.holds()[0]['id']}", "inbox?status=held", ""]:
        tab.open(where)
        assert judged(tab.page) == [], where
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), where
    tab.blameless()


def test_the_page_lists_what_would_be_sent_and_why(look, waiting):
    tab = look(width=1600)
    tab.open("approvals")
    first, second = values(tab)
    for text in ["39m", "POST to 127.0.0.1", "the event as a whole · github-org, push", "production", 'ref = "refs/heads/main"']:
        assert text in first, first
    for text in ["23h59m", "refund · shop, charge.refunded", "large-refund", "data.object.amount is above 5000", "data.object.amount = 7400"]:
        assert text in second, second
    assert tab.page.locator("footer code.main").inner_text() == "webhookctl hold list"
    tab.page.locator("nav a[href='#/approvals'] .badge:text-is('2')").wait_for()
    tab.open("approvals?source=shop")
    assert tab.page.locator("tbody tr").count() == 1
    tab.blameless()


def test_the_overview_and_the_keys_lead_to_an_event(look, waiting):
    tab = look()
    tab.open("")
    tab.page.locator(".items a.go", has_text="held event").first.click()
    tab.settle()
    assert "#/approvals?source=" in tab.page.url
    for key in "ga":
        tab.page.keyboard.press(key)
    tab.settle()
    for key in ["j", "Enter"]:
        tab.page.keyboard.press(key)
    tab.settle()
    first = waiting.holds()[0]
    assert tab.page.url.endswith(f"#/event/{first['id']}")
    assert "held" in tab.page.locator("h1").inner_text()
    text = tab.page.locator("main").inner_text()
    assert all(words in text for words in ["Waits for an approval", "production", "refs/heads/main", first["hold"], "hold expires"]), text


def test_without_write_the_page_has_commands_and_no_buttons(look, waiting):
    tab = look()
    id = waiting.holds()[0]["id"]
    for where in ["approvals", f"event/{id}"]:
        tab.open(where)
        assert not [text for text in tab.page.get_by_role("button").all_inner_texts() if "…" in text], where
    assert tab.page.locator(".next .command code").all_inner_texts() == [f'webhookctl hold approve {id} -m "…"']


def test_a_policy_without_bodies_leaves_the_list(look, waiting):
    tab = look()
    denied = {"error": {"code": "auth.denied", "message": "you lack s3:GetObject", "exit": 4}}
    tab.page.route("**/api/hold.show*", lambda route: route.fulfill(status=403, json=denied))
    tab.open("approvals")
    tab.page.get_by_text("you lack s3:GetObject").wait_for()
    assert tab.page.locator("tbody tr").count() == len(waiting.holds())
    tab.open(f"event/{waiting.holds()[0]['id']}")
    assert tab.page.get_by_text("you lack s3:GetObject").count()
    assert "production" in tab.page.locator(".next").inner_text()


def test_private_hides_the_values(tab_of, waiting, console_at):
    with console_at(waiting.cli.folder, "--private") as found:
        tab = tab_of(*found)
        tab.open("approvals")
        values(tab)
        colours = tab.page.evaluate("[...document.querySelectorAll('b.foreign')].map((n) => getComputedStyle(n).color)")
        assert set(colours) == {"rgba(0, 0, 0, 0)"}


def test_the_button_keeps_the_focus_while_time_passes(writer, waiting):
    writer.open(f"event/{waiting.holds()[0]['id']}")
    button = writer.page.get_by_role("button", name="Approve…")
    button.focus()
    reads = []
    writer.page.on("response", lambda response: reads.append(response.url) if "inbox.inspect" in response.url else None)
    writer.page.wait_for_timeout(5000)
    assert reads
    assert button.evaluate("(n) => n === document.activeElement")


def test_an_approval_needs_a_reason_and_lets_the_effect_happen(writer, waiting):
    hold = waiting.hold()
    before = len(waiting.got)
    writer.open(f"event/{hold['id']}")
    writer.page.get_by_role("button", name="Approve…").click()
    dialog = writer.page.locator("dialog")
    dialog.locator("dl").wait_for()
    assert hold["summary"] in dialog.inner_text() and hold["hold"] in dialog.inner_text()
    assert "data.object.amount = 7400" in dialog.inner_text()
    assert judged(writer.page) == []
    dialog.locator(".primary").click()
    assert "needs a reason" in dialog.locator("[role=alert]").inner_text()
    answer(writer, "the customer called")
    writer.page.get_by_role("button", name="Approve…").wait_for(state="detached")
    waiting.status(hold["id"], "done")
    assert waiting.got[before:] == ["/refunds"]
    record = waiting.cli.json("log", "--limit", "1")["items"][0]
    assert (record["what"], record["reason"], record["through"]) == ("hold.approve", "the customer called", "console")
    assert hold["hold"] in record["selection"]
    writer.blameless()


def test_a_rejection_makes_a_dead_letter(writer, waiting):
    hold = waiting.hold()
    before = len(waiting.got)
    writer.open(f"event/{hold['id']}")
    writer.page.get_by_role("button", name="Reject…").click()
    answer(writer, "a test card")
    writer.page.get_by_role("button", name="Reject…").wait_for(state="detached")
    assert "dead letter" in writer.page.locator("h1").inner_text()
    assert writer.page.get_by_text("Waits for an approval").count() == 0
    waiting.status(hold["id"], "dead_letter")
    assert len(waiting.got) == before


@pytest.mark.parametrize("verb", ["Approve", "Reject"])
def test_a_hold_that_moved_is_not_decided(writer, waiting, verb):
    hold = waiting.hold()
    before = len(waiting.got)
    writer.open(f"event/{hold['id']}")
    writer.page.get_by_role("button", name=f"{verb}…").click()
    if verb == "Approve":
        writer.page.locator("dialog dl").wait_for()
    waiting.move(hold["id"])
    answer(writer)
    alert = writer.page.locator("dialog [role=alert]")
    alert.wait_for()
    assert "held" in alert.inner_text() and "nothing was changed" in alert.inner_text()
    now = next(item for item in waiting.holds() if item["id"] == hold["id"])
    assert now["hold"] != hold["hold"] and len(waiting.got) == before
    # The page shows the hold that waits now, and its button is about that one. A page that saw the dead letter in
    # between reads no more.
    writer.page.get_by_role("button", name="Do nothing").click()
    writer.open(f"event/{hold['id']}")
    writer.page.locator("main").get_by_text(now["hold"]).wait_for()
    writer.page.get_by_role("button", name="Reject…").click()
    answer(writer)
    waiting.status(hold["id"], "dead_letter")


def test_the_inbox_has_a_view_of_held_events(look, waiting):
    tab = look()
    tab.open("inbox")
    tab.page.get_by_role("link", name="Held", exact=True).click()
    tab.settle()
    assert tab.page.url.endswith("#/inbox?status=held")
    rows = tab.page.locator("tbody tr").all_inner_texts()
    assert len(rows) == len(waiting.holds()) and all("held" in row for row in rows), rows


def test_a_page_without_holds_says_what_a_hold_is(look, waiting):
    tab = look()

    def empties(route):
        response = route.fetch()
        document = response.json() | {"items": []}
        route.fulfill(response=response, body=json.dumps(document))

    tab.page.route("**/api/hold.list*", empties)
    tab.open("approvals")
    assert "No event waits for an approval." in tab.page.locator(".empty").inner_text()
    assert judged(tab.page) == []


def declared(box):
    """The text of strangers in a box, and whether a reader can scroll to the end of the long one."""
    box.locator("pre.foreign").wait_for()
    texts = box.locator("dl", has_text="Would send").locator(".foreign").all_text_contents()
    pre = box.locator("pre.foreign")
    pre.evaluate("(n) => n.scrollTo(0, n.scrollHeight)")
    assert pre.evaluate("(n) => n.scrollTop > 0 && n.tabIndex === 0 && getComputedStyle(n).overflowY === 'auto'")
    return texts


def test_the_plan_of_a_worker_is_shown_as_a_whole_before_an_approval(writer, waiting):
    hold = waiting.declare(PLAN)
    assert hold["summary"].startswith(f"amount {PLAN['amount']}, target {PLAN['target']}, ")
    writer.open("approvals?source=desk")
    assert writer.page.locator("tbody a.foreign").all_text_contents() == [hold["summary"]]
    writer.open(f"event/{hold['id']}")
    whole = [hold["summary"], *PLAN.values()]
    assert declared(writer.page.locator("main")) == whole
    # Without an answer of `hold show`, there is nothing to approve.
    denied = {"error": {"code": "auth.denied", "message": "you lack s3:GetObject", "exit": 4}}
    writer.page.route("**/api/hold.show*", lambda route: route.fulfill(status=403, json=denied))
    approve, dialog = writer.page.get_by_role("button", name="Approve…"), writer.page.locator("dialog")
    approve.click()
    dialog.get_by_text("you lack s3:GetObject").wait_for()
    assert dialog.locator(".primary").is_disabled()
    writer.page.get_by_role("button", name="Do nothing").click()
    asked = []
    writer.page.unroute("**/api/hold.show*")
    writer.page.route("**/api/hold.show*", lambda route: asked.append(route))
    approve.click()
    dialog.locator("#reason").fill("the customer called")
    writer.page.wait_for_timeout(300)
    assert dialog.locator(".primary").is_disabled()
    # An answer about another hold is not what the page asks about.
    response = asked[-1].fetch()
    asked[-1].fulfill(response=response, json=response.json() | {"hold": "another"})
    dialog.get_by_text("another hold waits now").wait_for()
    assert dialog.locator(".primary").is_disabled()
    writer.page.get_by_role("button", name="Do nothing").click()
    writer.page.unroute("**/api/hold.show*")
    approve.click()
    assert declared(dialog) == whole
    assert judged(writer.page) == []
    answer(writer, "the customer called")
    approve.wait_for(state="detached")
    again = waiting.until(lambda: waiting.cli.json("work", "next", "--queue", "desk").get("events"))[0]
    plan = again["effects"]["refund"]["plan"]
    assert plan == PLAN | {"approved": True}
    writer.blameless()
