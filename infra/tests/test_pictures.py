"""pictures.py reads a terminal and draws it. `make test-pages` compares the pictures with the real commands."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "infra"))

import pictures  # noqa: E402
from pictures import Line  # noqa: E402


def texts(output, columns=20):
    return [line.text for line in pictures.screen(output, columns)]


def test_a_screen_shows_what_a_terminal_shows():
    assert texts("one\r\ntwo") == ["one", "two"]
    assert texts("0/2\r2/2") == ["2/2"]
    assert texts("old text\r\x1b[2Knew") == ["new"]
    assert texts("a\r\nb\x1b[1A\r\x1b[2Kc\x1b[1B\r\x1b[2Kd") == ["c", "d"]
    assert texts("abcdef", columns=4) == ["abcd", "ef"]


def test_a_picture_keeps_text_and_styles():
    lines = pictures.screen("\x1b[1mA  B\x1b[0m\r\n<x> & \x1b[32mdone\x1b[0m", 20)
    drawn = pictures.picture("a & b", lines)
    assert pictures.shown(drawn) == ["A B", "<x> & done"]
    assert '<tspan x="16.0" class="k">A</tspan>' in drawn
    assert 'class="g">done</tspan>' in drawn
    assert "a &amp; b</title>" in drawn


def test_only_what_differs_in_each_run_is_masked():
    before = pictures.masked(["10:14:39.118  evt_01M7  done  in 55ms", "", "2 done at 3.8/s"])
    assert before == pictures.masked(["07:50:10.585 evt_01M8 done in 1.5s", "2 done at 12.4447/s"])
    assert before != pictures.masked(["07:50:10.585 evt_01M8 failed in 1.5s", "2 done at 3/s"])
    assert pictures.masked(["2 done"]) != pictures.masked(["3 done"])


def test_a_word_begins_after_a_wide_gap_or_with_a_new_style():
    parts = list(Line("$ make run").parts())
    assert parts == [(0, "$", "m"), (2, "make run", "k")]
    assert [part[:2] for part in Line("a b   c").parts()] == [(0, "a b"), (6, "c")]


def test_every_picture_of_the_pages_is_recorded():
    assert sorted(path.name for path in pictures.DOCS.rglob("*.svg")) == sorted(pictures.PICTURES)
