"""The bookkeeping of row-attribution: rows go to the request that they were computed for, or to nobody."""

from __future__ import annotations

import pytest

from compat.patches.row_attribution import Ledger


def ledger(*added: tuple[str, int]) -> Ledger:
    made = Ledger()
    made.added.update(added)
    return made


def test_rows_follow_the_order_of_the_batch_not_of_the_inputs() -> None:
    book = ledger(("a", 3), ("b", 2), ("c", 4))
    book.begin({"a": 3, "b": 2})
    book.finish(["b", "a"])
    book.begin({"c": 4})
    book.finish(["c"])
    assert book.order(9) == [(2, 5), (0, 2), (5, 9)]


def test_a_batch_is_forgotten_once_it_is_attributed() -> None:
    book = ledger(("a", 3))
    book.begin({"a": 3})
    book.finish(["a"])
    book.order(3)
    book.added["b"] = 2
    book.begin({"b": 2})
    book.finish(["b"])
    assert book.order(2) == [(0, 2)]


def test_a_prompt_that_ran_in_part_is_an_error() -> None:
    book = ledger(("a", 500))
    book.begin({"a": 192})
    book.finish(["a"])
    with pytest.raises(RuntimeError, match="ran 192 of the 500 tokens of request a"):
        book.order(192)


def test_a_request_left_waiting_is_an_error() -> None:
    book = ledger(("a", 3), ("b", 9000))
    book.begin({"a": 3})
    book.finish(["a"])
    with pytest.raises(RuntimeError, match=r"never ran 1 of 2 requests \(first b, 9000 tokens"):
        book.order(3)


def test_rows_that_nobody_asked_for_are_an_error() -> None:
    book = ledger(("a", 3))
    book.begin({"a": 3})
    book.finish(["a"])
    with pytest.raises(RuntimeError, match="captured 4 rows for 3 tokens"):
        book.order(4)


def test_a_step_whose_result_never_came_counts_in_the_order_it_was_scheduled() -> None:
    book = ledger(("a", 3), ("b", 2))
    book.begin({"a": 3, "b": 2})
    assert book.order(5) == [(0, 3), (3, 5)]
