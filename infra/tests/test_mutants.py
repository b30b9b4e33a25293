"""A mutant changes only the place that cargo-mutants names."""

from mutants import changed, module, name


def mutant(start, end, replacement):
    span = {key: dict(zip(("line", "column"), place)) for key, place in (("start", start), ("end", end))}
    return {"span": span, "replacement": replacement}


def test_an_operator_is_replaced():
    text = "one\nä = b + c;\nthree\n"
    assert changed(text, mutant((2, 7), (2, 8), "-")) == "one\nä = b - c;\nthree\n"


def test_a_body_over_lines_is_replaced():
    text = "fn f() -> u8 {\n    one();\n    two()\n}\n"
    assert changed(text, mutant((2, 5), (3, 10), "0")) == "fn f() -> u8 {\n    0\n}\n"


def test_a_change_keeps_its_name_when_lines_move():
    assert name({"name": "a/b.rs:14:65: replace * with +"}) == "a/b.rs: replace * with +"


def test_the_tests_of_a_file_have_its_name():
    assert module("shared/src/delivery/breaker/health.rs") == "breaker"
    assert module("shared/src/inbox/ledger/claim.rs") == "claim"
