"""axe-core finds nothing on any page: WCAG 2.2 A and AA, light and dark, wide and narrow."""

from pathlib import Path

import pytest

PAGES = "overview inbox event dead plans quarantine approvals sync drift sources flow log doctor error plan request source presets".split()
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def judged(page):
    """Runs axe in a world of its own, so that the page keeps its policy while it is judged."""
    import axe_playwright_python

    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
    client = page.context.new_cdp_session(page)
    frame = client.send("Page.getFrameTree")["frameTree"]["frame"]["id"]
    world = client.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "axe"})["executionContextId"]

    def run(code):
        answer = client.send("Runtime.evaluate", {"expression": code, "contextId": world, "awaitPromise": True, "returnByValue": True})
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    run(axe + "; 0")
    found = run(f"axe.run(document, {{runOnly: {RULES}}}).then((r) => r.violations.map((v) => [v.id, v.nodes.map((n) => n.target.join(' ') + ': ' + n.failureSummary)]))")
    client.detach()
    return found


@pytest.mark.parametrize("width", [1280, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(tab, pages, scheme, width):
    look = tab(scheme, width)
    found = []
    for name in PAGES:
        look.open(pages[name])
        found += [f"{name}: {rule}: {node}" for rule, nodes in judged(look.page) for node in nodes]
        assert look.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than {width} px"
    assert not found, "\n".join(found)
    look.blameless()


def test_axe_finds_nothing_in_dialogs_and_errors(tab):
    look = tab()
    look.open("inbox?status=no-such-status")
    assert not judged(look.page)
    look.page.keyboard.press("?")
    look.page.wait_for_selector("dialog")
    assert not judged(look.page)
    look.open("event/evt_none")
    assert not judged(look.page)


def test_axe_finds_nothing_in_failing_and_empty_pages(tab):
    """Each read fails, and each list is empty."""
    import json

    look = tab("dark")
    found = []

    def fails(route):
        body = {"error": {"code": "auth.denied", "message": "you lack dynamodb:Query", "note": "ask for it", "tip": "webhookctl doctor", "exit": 4}}
        route.fulfill(status=403, json=body)

    def empties(route):
        # A stream has no document.
        if "inbox.tail" in route.request.url:
            return route.continue_()
        answer = route.fetch()
        document = answer.json()
        for name in ("items", "reports", "not_read"):
            if name in document:
                document[name] = []
        route.fulfill(response=answer, body=json.dumps(document))

    for state, answer in [("failing", fails), ("empty", empties)]:
        look.page.unroute_all(behavior="ignoreErrors")
        look.page.route("**/api/*", answer)
        for where in ["", "inbox", "dead", "plans", "quarantine", "approvals", "sync", "drift", "sources", "flow", "log", "doctor"]:
            look.open(where)
            found += [f"{state} {where}: {rule}: {node}" for rule, nodes in judged(look.page) for node in nodes]
            assert look.page.locator(".failure" if state == "failing" else ".empty, p.dim").count(), (state, where)
    look.page.unroute_all(behavior="ignoreErrors")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["overview", "inbox", "event", "plan", "sync"])
def test_400_percent_needs_no_second_scrollbar(tab, pages, name):
    # 1280 pixels at 400 % are 320 CSS pixels, and 4 device pixels each.
    look = tab(width=320, height=256, device_scale_factor=4)
    look.open(pages[name])
    assert look.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    inner = look.page.evaluate("""[...document.querySelectorAll('main *')].filter((n) => n.scrollWidth > n.clientWidth + 1
      && getComputedStyle(n).overflowX === 'auto' && !n.matches('.tabs, .heatbox, .twin, pre')).map((n) => n.className)""")
    assert inner == []
    top = look.page.evaluate("document.querySelector('header').offsetHeight + document.querySelector('footer').offsetHeight")
    assert top <= 128, "the bars leave no room for the page"


def test_forced_colours_keep_shapes_focus_and_borders(tab, pages):
    look = tab(forced_colors="active")
    for name in ["overview", "event", "sync"]:
        look.open(pages[name])
        marks = look.page.evaluate("""[...document.querySelectorAll('.mark')].filter((m) => m.getClientRects().length).map((m) => {
          const s = getComputedStyle(m); return [s.fill, getComputedStyle(document.body).backgroundColor]; })""")
        assert marks and all(fill != ground for fill, ground in marks), name
        look.page.keyboard.press("Tab")
        assert look.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", name
    assert look.page.locator("a.sq").first.evaluate("(n) => getComputedStyle(n).borderTopStyle") in ("solid", "dashed")
    look.blameless()
