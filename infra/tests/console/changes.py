"""Changes with `--write`: each has a reason and the command of a terminal, a count where events run, and one record."""

import time
from datetime import datetime, timezone

import pytest


@pytest.fixture
def look(tab_of, writer):
    return tab_of(*writer)


def answer(look, reason="a test of the console", count=None):
    dialog = look.page.locator("dialog")
    dialog.wait_for()
    assert "webhookctl " in dialog.locator(".command code").inner_text()
    if count is not None:
        dialog.locator("#confirm").fill(str(count))
    dialog.locator("#reason").fill(reason)
    dialog.locator(".primary").click()


def test_no_button_changes_anything_without_write(tab, pages):
    look = tab()
    for name, where in pages.items():
        look.open(where)
        for text in look.page.get_by_role("button").all_inner_texts():
            assert "…" not in text, f"{name}: {text}"


def test_a_source_is_paused_and_resumed_with_a_reason(look, cli):
    look.open("source/slack-main")
    look.page.get_by_role("button", name="Pause…").click()
    look.page.locator("dialog .primary").click()
    assert "needs a reason" in look.page.locator("dialog [role=alert]").inner_text()
    answer(look, "slack is noisy")
    look.page.get_by_role("button", name="Resume…").wait_for()
    assert cli.json("sources", "show", "slack-main")["paused"]
    record = cli.json("log", "--limit", "1")["items"][0]
    assert (record["what"], record["reason"], record["through"]) == ("source.pause", "slack is noisy", "console")
    look.page.get_by_role("button", name="Resume…").click()
    answer(look)
    look.page.get_by_role("button", name="Pause…").wait_for()
    assert not cli.json("sources", "show", "slack-main")["paused"]
    look.blameless()


def test_a_plan_shows_what_happens_to_each_event_and_needs_its_count(look, cli, pages):
    look.open(pages["event"])
    look.page.get_by_role("button", name="Plan a replay…").click()
    answer(look, "the warehouse is up")
    look.page.wait_for_url("**/plan/rpl_*")
    look.settle()
    events = look.page.get_by_role("table", name="Events that run again")
    assert "warehouse: again, with key" in events.inner_text()
    look.page.get_by_role("button", name="Apply…").click()
    answer(look, count=7)
    assert "Type 1 to confirm" in look.page.locator("dialog [role=alert]").inner_text()
    look.page.get_by_role("button", name="Do nothing").click()
    look.page.get_by_role("button", name="Cancel…").click()
    answer(look)
    look.page.get_by_role("button", name="Apply…").wait_for(state="detached")
    plan = look.page.url.rsplit("/", 1)[1]
    assert cli.json("replay", "show", plan)["state"] == "cancelled"
    look.blameless()


def quarantined(cli):
    """An event of a known id with another body, which the inbox quarantines."""
    for body in ['{"n":1}', '{"n":2}']:
        cli("send", "generic-hmac", "--id", "one-id-two-bodies", "--type", "twin", "-d", body, check=False)
    return cli.json("inbox", "list", "--status", "quarantined", "--since", "1h")["items"][0]["id"]


def test_a_quarantined_event_stands_beside_the_other_and_is_decided(look, cli):
    event = quarantined(cli)
    look.open(f"event/{event}")
    named = cli.json("inbox", "inspect", event)
    known = any(", of " in moment["detail"] for moment in named["timeline"]) or "conflicts_with" in named
    assert look.page.get_by_text("The other event with this id").count() == known
    look.page.get_by_role("button", name="Discard…").click()
    answer(look, "a copy with another body")
    look.page.get_by_role("button", name="Discard…").wait_for(state="detached")
    timeline = cli.json("inbox", "inspect", event)["timeline"]
    assert timeline[-1]["what"] == "discarded" and "a copy with another body" in timeline[-1]["detail"]
    look.blameless()



def test_the_other_event_is_named_by_the_history(tab, cli):
    """The document of a release that names the other event."""
    import json

    items = cli.json("inbox", "list", "--limit", "2")["items"]
    first, second = items[0]["id"], items[1]["id"]
    look = tab()

    def change(route):
        answer = route.fetch()
        document = answer.json()
        if document["id"] == first:
            document["status"] = "quarantined"
            document["timeline"].append({"at": document["received_at"], "what": "quarantined", "detail": f"conflict, of {second}"})
        route.fulfill(response=answer, body=json.dumps(document))

    look.page.route("**/api/inbox.inspect*", change)
    look.open(f"event/{first}")
    beside = look.page.get_by_role("table", name="This event and the other")
    beside.wait_for()
    assert second[:15] in beside.inner_text()
    differences = look.page.get_by_role("table", name="Differences of the bodies")
    differences.or_(look.page.get_by_text("The bytes of both bodies are the same.")).first.wait_for()


def test_j_and_k_step_through_the_list_of_an_event(tab):
    look = tab()
    look.open("inbox")
    links = look.page.locator("tbody a.go").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")
    look.page.locator("tbody a.go").first.click()
    look.settle()
    assert f"1 of {len(links)}" in look.page.locator(".near").inner_text()
    look.page.keyboard.press("j")
    look.settle()
    assert look.page.url.endswith(links[1])
    look.page.keyboard.press("k")
    look.settle()
    assert look.page.url.endswith(links[0])
    look.page.keyboard.press("u")
    look.settle()
    assert look.page.url.endswith("#/inbox")


def test_verify_shows_its_six_steps(tab, pages):
    look = tab()
    look.open(pages["request"])
    look.page.get_by_role("button", name="Verify it step by step").click()
    look.page.locator(".steps6 li").nth(5).wait_for()
    text = look.page.locator(".steps6").inner_text()
    assert all(step in text for step in ["1 Preset", "2 Signature", "3 Time", "4 Signed text", "5 Secrets", "6 Near misses"])
    assert "does not match" in text
    look.blameless()


def test_sources_have_lines_of_their_hours(tab):
    look = tab()
    look.open("")
    look.page.locator("svg.spark").nth(2).wait_for(timeout=30000)
    look.open("sources")
    look.page.locator("svg.spark").nth(2).wait_for(timeout=30000)


def many(cli, look, count):
    """Sends events, plans to run all of them again when they are done, and opens the page of the plan."""
    since = datetime.now(timezone.utc).isoformat()
    cli("send", "stripe-main", "-n", str(count), "--rate", "100/s", "--quiet")
    which = ["--source", "stripe-main", "--since", since, "--limit", str(count + 1)]
    deadline = time.monotonic() + 60
    while len(cli.json("inbox", "list", "--status", "done", *which)["items"]) < count:
        assert time.monotonic() < deadline, "the events are not done"
    plan = cli.json("replay", "plan", *which[:4], "--mode", "force", "--reason", "a long replay")["id"]
    look.open(f"plan/{plan}")
    return plan


def apply(look, count):
    look.page.get_by_role("button", name="Apply…").click()
    answer(look, "a long replay", count=count)


def replayed(cli, plan):
    shown = cli.json("replay", "show", plan)
    return shown["state"], shown


def test_a_replay_goes_on_when_its_tab_is_closed(look, cli):
    plan = many(cli, look, 60)
    apply(look, 60)
    look.page.wait_for_timeout(500)
    look.page.close()
    deadline = time.monotonic() + 60
    while replayed(cli, plan)[0] != "finished":
        assert time.monotonic() < deadline, replayed(cli, plan)[1]
        time.sleep(0.3)


def test_two_consoles_cannot_apply_one_plan_at_once(look, tab_of, console_at, cli):
    with console_at(cli.folder, "--write") as (base, session):
        other = tab_of(base, session)
        plan = many(cli, look, 60)
        other.open(f"plan/{plan}")
        codes = []
        other.page.on("response", lambda response: codes.append(response.status) if response.request.method == "POST" else None)
        other.page.get_by_role("button", name="Apply…").click()
        apply(look, 60)
        answer(other, "the same plan", count=60)
        other.page.locator("dialog [role=alert]").wait_for()
        assert codes[-1] in (409, 423), codes
    deadline = time.monotonic() + 60
    while replayed(cli, plan)[0] != "finished":
        assert time.monotonic() < deadline, replayed(cli, plan)[1]
        time.sleep(0.3)
    # Each event ran once more, not twice.
    ids = [event["id"] for event in cli.json("replay", "show", plan, "--events")["items"]]
    assert len(ids) == 60
    assert {len(cli.json("inbox", "inspect", id)["replays"]) for id in ids[:10]} == {1}


def test_private_hides_what_senders_wrote(tab_of, console_at, cli, pages):
    with console_at(cli.folder, "--private") as (base, session):
        look = tab_of(base, session)
        look.open(pages["event"])
        look.page.keyboard.press("b")
        hidden = look.page.locator("pre.code")
        hidden.wait_for()
        colour = "(n) => getComputedStyle(n).color"
        clear = "rgba(0, 0, 0, 0)"
        assert hidden.evaluate(colour) == clear
        inner = look.page.evaluate("[...document.querySelectorAll('.foreign, .foreign *')].map((n) => getComputedStyle(n).color)")
        assert set(inner) == {clear}
        look.page.keyboard.down("m")
        assert hidden.evaluate(colour) != clear
        look.page.keyboard.up("m")
        assert hidden.evaluate(colour) == clear
        for name in ["request", "sync"]:
            look.open(pages[name])
            assert look.page.locator(".foreign").count() or name == "sync", name
        look.blameless()
