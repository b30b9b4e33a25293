"""What the pages promise: the address is the state, keys reach everything, nothing moves, errors are the CLI's."""

import re

import pytest

TITLES = "overview inbox event dead plans quarantine approvals sync drift sources flow log doctor".split()


def heading(look):
    return look.page.locator("h1").inner_text()


def test_each_page_has_its_title_its_heading_and_its_command(tab, pages):
    look = tab()
    titles = set()
    for name in TITLES:
        look.open(pages[name])
        assert look.page.title().endswith("· local")
        titles.add(look.page.title())
        assert look.page.evaluate("document.activeElement === document.querySelector('h1')"), name
        assert look.page.locator("footer code.main").inner_text().startswith("webhookctl "), name
    assert len(titles) == len(TITLES)
    look.blameless()


class Held:
    """A tab whose scripts wait, except first.js, until they are let go."""

    def __init__(self, look, where):
        self.look, self.waiting, self.asked = look, [], []
        look.page.route("**/console.js*", lambda route: self.waiting.append(route))
        look.page.on("request", lambda request: self.asked.append(request.url.removeprefix(look.base)))
        look.page.goto("about:blank")
        look.page.goto(f"{look.base}/#/{where}", wait_until="commit")
        look.page.wait_for_selector("nav a")
        for _ in range(100):
            if self.waiting and self.reads():
                break
            look.page.wait_for_timeout(20)

    def reads(self):
        return [path for path in self.asked if path.startswith(("/api/", "/session"))]

    def go(self):
        self.waiting.pop().continue_()
        self.look.settle()
        self.look.page.unroute_all()


def test_the_shell_is_painted_before_the_scripts_arrive(tab):
    look = tab()
    held = Held(look, "")
    for _ in range(100):
        if look.page.evaluate("performance.getEntriesByName('first-contentful-paint').length"):
            break
        look.page.wait_for_timeout(20)
    else:
        raise AssertionError("nothing is painted")
    assert look.page.locator("nav a").all_inner_texts()[:2] == ["Overview", "Inbox"]
    assert look.page.locator("header .brand").is_visible() and look.page.locator("footer").is_visible()
    before = look.page.locator("nav").bounding_box(), look.page.locator("main").bounding_box()["x"]
    held.go()
    assert before == (look.page.locator("nav").bounding_box(), look.page.locator("main").bounding_box()["x"])
    look.blameless()


def test_the_first_reads_begin_before_the_scripts_arrive_and_are_taken(tab, pages):
    wheres = ["overview", "inbox", "event", "dead", "plans", "quarantine", "approvals", "sources", "flow"]
    for where in [pages[name] for name in wheres] + ["inbox?status=dead_letter&source=acme"]:
        look = tab()
        held = Held(look, where)
        early = held.reads()
        assert len(early) == 2 and early[0] == "/session", (where, early)
        held.go()
        # The page takes the answer, and does not read the same again with other flags.
        names = [path.split("?")[0] for path in held.reads()]
        assert [names.count(path.split("?")[0]) for path in early] == [1, 1], (where, held.reads())
        token = look.page.evaluate("localStorage.getItem('token')")
        assert token and not [path for path in held.asked if token in path]
        look.blameless()


@pytest.mark.parametrize(
    "where", ["inbox?where=status%3Dcompleted", "inbox?%77here=status%3Dcompleted", "event/evt_1%26reveal", "event/a&b=c"]
)
def test_an_address_that_could_read_more_is_not_read_early(tab, where):
    held = Held(tab(), where)
    assert held.reads() == ["/session"]
    held.go()
    assert not [path for path in held.reads() if path.startswith("/api/inbox.list")]


def test_the_page_is_a_few_requests_and_a_reload_needs_none_of_them(tab):
    look = tab()
    asked = []
    look.page.on("request", lambda request: asked.append(request.url.removeprefix(look.base)))
    look.open("")
    files = sorted({path.split("?")[0] for path in asked if not path.startswith(("/api/", "/session", "about:"))})
    assert [path for path in files if path != "/icon.svg"] == ["/", "/console.js"], files
    look.open("")
    sizes = look.page.evaluate("performance.getEntriesByType('resource').filter((e) => /console/.test(e.name)).map((e) => e.transferSize)")
    assert sizes == [0], sizes


def test_the_first_page_names_the_dead_letter(tab):
    look = tab()
    look.open("")
    first = look.page.locator(".items li").first
    assert "dead letter" in first.inner_text()
    assert "acme" in first.inner_text()
    biggest = look.page.evaluate("Math.max(...[...document.querySelectorAll('main *')].map((n) => parseFloat(getComputedStyle(n).fontSize)))")
    assert first.locator("a.go").evaluate("(n) => parseFloat(getComputedStyle(n).fontSize)") == biggest


def test_the_foot_shows_a_command_that_answers_the_same(tab, cli):
    look = tab()
    look.open("inbox?status=dead_letter")
    command = look.page.locator("footer code.main").inner_text()
    shown = look.page.locator("tbody a.go").all_inner_texts()
    items = cli.json(*command.split()[1:])["items"]
    assert [item["id"][:15] for item in items] == shown


def test_a_reload_shows_the_same(tab, pages):
    look = tab()
    for where in ["inbox?status=done&source=stripe-main", pages["event"], "sync?since=7d", "?since=7d"]:
        before, after = (shown(look, where), shown(look, where))
        assert changing(before) == changing(after), where


def shown(look, where):
    """The text of a page. The lines of the sources are read last."""
    look.open(where)
    lines = "[...document.querySelectorAll('td.w-spark')].every((cell) => cell.querySelector('svg'))"
    for _ in range(100):
        if look.page.evaluate(lines):
            break
        look.page.wait_for_timeout(50)
    return look.page.locator("main").inner_text()


def changing(text):
    """The text without ages and times, which change between two reads."""
    return re.sub(r"\d[\d:.,hmsd ]*(ago|behind)?|now", "#", text)


def test_keys_lead_from_the_overview_to_an_event(tab):
    look = tab()
    look.open("")
    keys = look.page.keyboard
    keys.press("g")
    keys.press("i")
    look.settle()
    assert heading(look) == "Inbox"
    keys.press("j")
    keys.press("j")
    keys.press("k")
    keys.press("Enter")
    look.settle()
    assert "/event/evt_" in look.page.url
    assert "evt_" in heading(look)
    assert look.page.evaluate("document.activeElement === document.querySelector('h1')")
    keys.press("b")
    look.page.wait_for_selector("pre.code")
    keys.press("Escape")
    look.settle()
    assert heading(look) == "Inbox"
    look.blameless()


def test_tab_alone_reaches_the_worst_thing(tab):
    look = tab()
    look.open("")
    for _ in range(60):
        look.page.keyboard.press("Tab")
        if look.page.evaluate("document.activeElement.matches('.items .go')"):
            break
    else:
        raise AssertionError("Tab does not reach the first item")
    look.page.keyboard.press("Enter")
    look.settle()
    assert "/dead" in look.page.url


def test_single_keys_can_be_switched_off(tab):
    look = tab()
    look.open("")
    look.page.keyboard.press("?")
    look.page.locator("#keyson").uncheck()
    look.page.keyboard.press("Escape")
    look.page.keyboard.press("g")
    look.page.keyboard.press("i")
    look.page.wait_for_timeout(300)
    assert heading(look) == "Overview"


def test_a_wrong_word_shows_the_error_of_the_cli_and_keeps_the_list(tab, cli):
    look = tab()
    look.open("inbox")
    rows = look.page.locator("tbody tr").count()
    look.page.locator("#filter").fill("statsu:failed")
    look.page.locator("#filter").press("Enter")
    error = look.page.locator("#filtersays [role=alert]")
    error.wait_for()
    assert "usage.unknown_argument" in error.inner_text()
    assert "--status" in error.inner_text()
    assert look.page.locator("tbody tr").count() == rows


def test_the_page_asks_before_it_reads_bodies(tab):
    look = tab()
    look.open("inbox?where=status%3Dcompleted")
    assert not look.page.locator("tbody tr").count()
    look.page.get_by_role("button", name="Read them").click()
    look.settle()
    assert look.page.locator("tbody tr, .empty").count()


def test_live_events_wait_behind_a_button_and_move_no_row(tab, cli):
    look = tab()
    look.open("inbox")
    look.page.wait_for_timeout(1500)
    first = look.page.locator("tbody tr").first
    look.page.locator("tbody a.go").first.focus()
    before = first.inner_text(), first.bounding_box()
    cli("send", "stripe")
    look.page.locator(".news").wait_for(timeout=15000)
    now = look.page.locator("tbody tr").first
    assert (now.locator("a.go").inner_text(), now.bounding_box()) == (look.page.locator("tbody a.go").first.inner_text(), before[1])
    assert look.page.evaluate("document.activeElement.matches('tbody a.go')")
    count = look.page.locator("tbody tr").count()
    look.page.keyboard.press(".")
    look.page.locator(".news").wait_for(state="hidden")
    look.settle()
    assert look.page.locator("tbody tr").count() > count


def test_charts_have_a_table_and_a_readout(tab):
    look = tab()
    look.open("")
    look.page.get_by_role("button", name="Show as a table").click()
    assert look.page.locator(".twin tbody tr").count() >= 24
    look.page.locator(".chartfocus").first.focus()
    look.page.keyboard.press("ArrowLeft")
    assert "so far" in look.page.locator(".readout").first.inner_text()


def test_the_body_is_shown_as_it_was_sent(tab, cli, pages):
    look = tab()
    look.open(pages["event"])
    sent = cli("inbox", "body", pages["event"].split("/")[1]).stdout
    look.page.get_by_role("button", name="Exact").click()
    look.page.wait_for_selector("pre.exact")
    assert look.page.locator("pre.exact").inner_text() == sent
    look.page.get_by_role("button", name="Pretty").click()
    look.page.wait_for_selector("pre.pretty")
    assert re.sub(r"\s", "", look.page.locator("pre.pretty").inner_text()) == re.sub(r"\s", "", sent)


def test_a_process_that_is_gone_is_said_and_the_answer_stays(tab):
    look = tab()
    look.open("")
    text = look.page.locator(".items").inner_text()
    look.page.context.set_offline(True)
    look.page.get_by_text("webhookctl has stopped").wait_for(timeout=20000)
    assert changing(look.page.locator(".items").inner_text()) == changing(text)
    look.page.context.set_offline(False)
    look.page.locator(".banner").wait_for(state="hidden", timeout=20000)


def test_a_page_without_a_session_says_so(chromium, console):
    page = chromium.new_page()
    page.goto(console.split("/#")[0])
    page.get_by_text("This page has no session").wait_for()
    page.close()
