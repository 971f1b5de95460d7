"""What becomes of a conversation's tokens: cut to run.max_length, its mask is the one that verify finds in what is
left; with tokens that the target does not have, it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipeline import masking, prepare
from pipeline.conversations import Conversation, Message
from pipeline.masking import Marks
from pipeline.settings import Settings

THINK, EMPTY, ANSWER, END = 6, 7, 8, 4
MARKS = Marks.of((2, 3), [END], [[THINK, EMPTY, ANSWER]])
SPOKEN = (1, 50, END, 2, 3, THINK, EMPTY, ANSWER, 60, END, 1, 51, END, 2, 3)


class Spoken:
    """The token ids of a conversation, ready made: tokenizers are in the stage environments only."""

    name, erased = "spoken", 0

    def __init__(self, ids: Sequence[int], marks: Marks | None) -> None:
        self.ids, self.marks = list(ids), marks

    def encode(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> tuple[list[int], list[int]]:
        return self.ids, masking.mask(self.ids, MARKS)


@pytest.mark.parametrize("last", [(THINK, EMPTY, ANSWER, 61, END), (THINK, 61, ANSWER, 62, END)])
def test_wherever_the_cut_is_the_mask_is_that_of_the_tokens_left(last: tuple[int, ...]) -> None:
    ids = (*SPOKEN, *last)
    for length in range(10, len(ids)):
        wanted = Settings(max_length=length)
        sample = prepare._sample(Conversation("chat.jsonl:1"), wanted, Spoken(ids, MARKS), prepare.Tally())
        assert sample is not None
        assert sample.token_ids == ids[:length]
        assert list(sample.loss_mask) == masking.mask(sample.token_ids, MARKS)


def test_the_mask_of_an_unknown_format_is_cut() -> None:
    ids = (*SPOKEN, 61, END)
    sample = prepare._sample(Conversation("chat.jsonl:1"), Settings(max_length=16), Spoken(ids, None), prepare.Tally())
    assert sample is not None
    assert list(sample.loss_mask) == masking.mask(ids, MARKS)[:16]


def test_a_token_that_the_target_does_not_have_is_told_with_the_row() -> None:
    """Of a tokenizer that is not the model's."""
    tally = prepare.Tally()
    conversation = Conversation("chat.jsonl:7")
    assert prepare._sample(conversation, Settings(), Spoken(SPOKEN, MARKS), tally, vocabulary=61) is not None
    assert prepare._sample(conversation, Settings(), Spoken(SPOKEN, MARKS), tally, vocabulary=60) is None
    (told,) = tally.faults
    assert told.startswith("chat.jsonl:7 cannot be used: it has the token 60, and the target's vocabulary ends at 59;")
    assert (tally.faulty, tally.samples) == (1, 1)
