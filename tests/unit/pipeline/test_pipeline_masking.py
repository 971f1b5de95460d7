"""The loss mask is found from token ids: rendered up to each assistant turn and up to its end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pipeline.corpus import Message, conversations
from pipeline.masking import MaskError, encode

USER, ASSISTANT, MIDDLE, END = 1, 2, 3, 4


def render(messages: Sequence[Message], prompt: bool) -> list[int]:
    ids: list[int] = []
    for message in messages:
        ids += [ASSISTANT if message["role"] == "assistant" else USER, MIDDLE, *map(ord, message["content"]), END]
    return [*ids, ASSISTANT, MIDDLE] if prompt else ids


def talk(*turns: tuple[str, str]) -> list[Message]:
    return [{"role": role, "content": content} for role, content in turns]


def test_the_mask_covers_what_the_assistant_says_and_its_end_of_turn() -> None:
    ids, mask = encode(talk(("user", "hi"), ("assistant", "yo"), ("user", "a"), ("assistant", "b")), render)
    said = [i for i, m in zip(ids, mask, strict=True) if m]
    assert said == [ord("y"), ord("o"), END, ord("b"), END]
    assert len(ids) == len(mask)


def test_user_text_that_repeats_the_answer_is_not_masked_in() -> None:
    ids, mask = encode(talk(("user", "yo"), ("assistant", "yo")), render)
    assert mask[: len(ids) - 3] == [0] * (len(ids) - 3)


def test_a_conversation_without_an_assistant_is_refused() -> None:
    with pytest.raises(MaskError, match="no token of it is said by the assistant"):
        encode(talk(("user", "hi")), render)


def test_a_template_that_rewrites_earlier_turns_is_refused() -> None:
    def rewriting(messages: Sequence[Message], prompt: bool) -> list[int]:
        kept = [m for m in messages if m is messages[-1] or m["role"] == "user"]
        return render(kept, prompt)

    with pytest.raises(MaskError, match="renders turn 1 differently"):
        encode(talk(("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")), rewriting)


def test_the_standard_library_s_conversations_are_always_the_same_and_share_a_prefix() -> None:
    first = conversations(40)
    assert first == conversations(40)
    assert len(first) == 40
    assert sum(messages[0]["role"] == "system" for messages in first) == 20
    assert all(messages[-1]["role"] == "assistant" for messages in first)
