"""Writes the pictures of infra/docs/console: the twelve pages, light and dark. They are compared by size and by text."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

FOLDER = Path(__file__).parents[2] / "docs/console"
PAGES = "overview inbox event dead plans quarantine sync drift sources flow log doctor".split()
LIMIT = 160_000
TEXT = {
    "overview": ["attention", "dead letter", "Arrivals and outcomes", "Sources"],
    "inbox": ["Status", "job.completed", "dead letter"],
    "event": ["Timeline", "Side effects", "What was proven", "attempt 3"],
    "dead": ["the destination answered 502"],
    "plans": ["the warehouse is up again"],
    "quarantine": ["the signature does not match"],
    "sync": ["stripe-main", "charge.refunded"],
    "drift": ["subscriptions"],
    "sources": ["github-main", "failing"],
    "flow": ["warehouse", "Destination"],
    "log": ["sources.apply"],
    "doctor": ["passed", "source.outage"],
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_look_like_their_pictures(tab, pages, scheme):
    look = tab(scheme, 1280, 800)
    FOLDER.mkdir(exist_ok=True)
    for name in PAGES:
        look.open(pages[name])
        text = look.page.locator("main").inner_text()
        assert all(words in text for words in TEXT[name]), (name, text)
        # The lines of the hours are read one after another, after the page.
        expect(look.page.locator("td.w-spark:not(:has(svg))")).to_have_count(0, timeout=10_000)
        look.page.mouse.move(0, 0)
        picture = look.page.screenshot(path=FOLDER / f"{name}-{scheme}.png")
        assert 10_000 < len(picture) < LIMIT, (name, len(picture))
        assert (int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24])) == (1280, 800)
    look.blameless()
