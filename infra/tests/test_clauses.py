"""clauses.py removes each clause of a condition once."""

from clauses import without_one


def test_all_of_a_condition_can_go():
    assert without_one("attribute_not_exists(pk)") == {""}


def test_each_clause_goes_by_itself_also_in_brackets():
    whole = "(st = :a OR (st = :b AND due <= :now)) AND att < :max AND attribute_type(fx, :map)"
    assert without_one(whole) == {
        "(st = :b AND due <= :now) AND att < :max AND attribute_type(fx, :map)",
        "(st = :a OR due <= :now) AND att < :max AND attribute_type(fx, :map)",
        "(st = :a OR st = :b) AND att < :max AND attribute_type(fx, :map)",
        "st = :a AND att < :max AND attribute_type(fx, :map)",
        "att < :max AND attribute_type(fx, :map)",
        "(st = :a OR (st = :b AND due <= :now)) AND attribute_type(fx, :map)",
        "(st = :a OR (st = :b AND due <= :now)) AND att < :max",
    }


def test_a_list_is_one_clause():
    assert without_one("st IN (:a, :b) AND lu < :now") == {"st IN (:a, :b)", "lu < :now"}
