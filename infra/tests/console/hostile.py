"""Whoever sends a webhook chooses its type, its id and its body. The page shows them as text, and nothing else."""

import pytest

TEXTS = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "<svg/onload=alert(1)>",
    "javascript:alert(1)",
    "\"><iframe src=//evil.example></iframe>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "__proto__",
    "constructor",
    "#/doctor?x=<b>",
    "//evil.example/x",
    "invoice\u202edip.\u202cpaid",
    "tag\U000e0041\U000e0042",
    "zero\u200bwidth\ufeff",
    "\u2066isolate\u2069",
    "e" + "\u0301" * 2000,
    "=HYPERLINK(\"http://evil.example\")",
    "a'b\"c`d$(reboot);&|",
    "\x1b[2J\x1b]0;owned\x07",
    "two\nlines",
]
SEEN = {"invoice\u202edip.\u202cpaid": "U+202E", "tag\U000e0041\U000e0042": "U+E0041", "zero\u200bwidth\ufeff": "U+200B"}


@pytest.fixture(scope="module")
def sent(cli):
    """Events whose type, id and body are hostile. Not every text can be sent in every field."""
    for text in TEXTS:
        cli("send", "generic-hmac", "--type", text, "--id", f"id-{text}", "-d", '{"note": %s}' % __import__("json").dumps(text), check=False)
        cli("send", "stripe", "--type", text, "--set", f"+note={text}", check=False)
    return cli.json("inbox", "list", "--limit", "100", "--since", "10m")["items"]


def elements(look):
    return set(look.page.evaluate("[...document.querySelectorAll('*')].map((n) => n.localName)"))


def test_hostile_texts_are_stored(sent):
    types = {item["type"] for item in sent}
    assert len(types & set(TEXTS)) >= 8, types


def test_every_page_shows_hostile_texts_as_text(tab, pages, sent):
    look = tab()
    look.open("presets")
    known = elements(look)
    for name, where in pages.items():
        look.open(where)
        known |= elements(look)
        look.blameless()
    assert not known & {"img", "iframe", "object", "embed", "base", "form", "link2"}
    assert look.page.locator("script").count() == 2
    look.open("inbox")
    shown = look.page.locator("tbody").inner_text()
    assert "<img src=x onerror=alert(1)>" in shown


def test_each_hostile_event_is_inert(tab, sent):
    look = tab()
    for item in [item for item in sent if item["type"] in TEXTS]:
        look.open(f"event/{item['id']}")
        for how in ["Pretty", "Exact", "Hex"]:
            look.page.get_by_role("button", name=how).click()
            look.page.wait_for_selector(f"pre.{how.lower()}")
        if seen := SEEN.get(item["type"]):
            assert seen in look.page.locator(".subhead").inner_text()
        for link in look.page.evaluate("[...document.querySelectorAll('a')].map((a) => a.getAttribute('href'))"):
            assert link.startswith("#"), link
        look.blameless()


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)>", "javascript:alert(1)", "__proto__", "a\"b' c\\", "\u202e"])
def test_hostile_addresses_and_filters_are_inert(tab, text):
    from urllib.parse import quote

    look = tab()
    for where in [f"event/{quote(text)}", f"source/{quote(text)}", f"dead/{quote(text)}", f"plan/{quote(text)}", f"inbox?type={quote(text)}", f"inbox?{quote(text)}=1", quote(text)]:
        look.open(where)
        look.blameless()
    look.open("inbox")
    look.page.locator("#filter").fill(f"type:{text}")
    look.page.locator("#filter").press("Enter")
    look.settle()
    look.blameless()
