"""Speculative decoding in this process, with a target and a draft model of a few known tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.draft import simulate
from pipeline.draft.acceptance import Answer

TEXT = (10, 11, 12, 13, 14, 99, 15, 16, 17, 18)
"""What the target says, whatever the prompt, its end token 99 in the midst."""


class Cache:
    def __init__(self) -> None:
        self.tokens: list[int] = []

    def crop(self, by: int) -> None:
        assert by < 0
        del self.tokens[by:]


class Target:
    """Says TEXT after a prompt of two tokens; its states are the tokens that it has seen."""

    def begin(self) -> Cache:
        return Cache()

    def forward(self, ids: Sequence[int], cache: Cache) -> tuple[list[int], list[int]]:
        before = len(cache.tokens)
        cache.tokens += ids
        best = [TEXT[before + place - 1] if before + place >= 1 else 0 for place in range(len(ids))]
        return best, list(ids)


class Draft:
    """Guesses TEXT rightly but for the tokens of `wrong`; asserts that its rows are the accepted tokens alone."""

    wrong: frozenset[int] = frozenset()

    def __init__(self, model: object) -> None:
        self.rows = [1]

    def propose(self, tokens: Sequence[int], states: Sequence[int], count: int) -> list[int]:
        assert len(tokens) == len(states)
        self.rows += tokens
        assert self.rows == [1, 2, *TEXT][: len(self.rows)]
        place = len(self.rows) - 2
        return [0 if token in self.wrong else token for token in TEXT[place : place + count]]


def answer(monkeypatch: pytest.MonkeyPatch, wrong: set[int], max_tokens: int, ends: set[int]) -> Answer:
    monkeypatch.setattr(simulate, "Draft", type("Draft", (Draft,), {"wrong": frozenset(wrong)}))
    target: Any = Target()
    return simulate.answer(target, None, [1, 2], 3, max_tokens, ends)


def test_rounds_until_the_most_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, set(), 6, set()) == Answer(TEXT[:6], (3, 3))
    assert answer(monkeypatch, {12}, 4, set()) == Answer(TEXT[:4], (1, 3))
    assert answer(monkeypatch, {11, 12, 13}, 4, set()) == Answer(TEXT[:4], (0, 0, 0))
    assert answer(monkeypatch, set(), 1, set()) == Answer(TEXT[:1], ())


def test_an_end_that_is_not_the_last_of_a_round_ends_the_answer_and_its_round_counts_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert answer(monkeypatch, set(), 10, {99}) == Answer(TEXT[:6], (3, 3))
    assert answer(monkeypatch, {13}, 10, {99}) == Answer(TEXT[:6], (2, 3))
    assert answer(monkeypatch, set(), 10, {10}) == Answer(TEXT[:1], ())
