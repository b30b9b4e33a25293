"""axe-core finds nothing on any page: WCAG 2.2 A and AA, light and dark, wide and narrow."""

from pathlib import Path

import pytest

PAGES = "overview inbox event dead plans quarantine sync drift sources flow log doctor error plan request source presets".split()
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
