"""A chat format of no known family: the mask comes from rendering the conversation turn by turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pipeline.chat.template import Template
from pipeline.chat.unknown import UnknownChat
from pipeline.corpus import Message
from pipeline.masking import MaskError


class Characters:
    """A tokenizer with a token a character, and the format `[user words][assistant words]`."""

    rewrites = False

    def apply_chat_template(
        self, messages: Sequence[Message], tokenize: bool, add_generation_prompt: bool, **how: bool
    ) -> str:
        if messages and messages[-1]["role"] == "system":
            raise ValueError("a system prompt cannot be last")
        kept = [m for m in messages if not self.rewrites or m is messages[-1] or m["role"] == "user"]
        text = "".join(f"[{m['role']} {m['content']}]" for m in kept)
        return text + "[assistant " if add_generation_prompt else text

    def __call__(self, text: str, add_special_tokens: bool) -> Mapping[str, Sequence[int]]:
        return {"input_ids": [ord(c) for c in text]}


class Rewriting(Characters):
    rewrites = True


class Forgetful(Characters):
    """Knows two roles, and does not say so where another comes."""

    roles = ("user", "assistant")

    def apply_chat_template(
        self, messages: Sequence[Message], tokenize: bool, add_generation_prompt: bool, **how: bool
    ) -> str:
        kept = [m for m in messages if m["role"] in self.roles]
        return super().apply_chat_template(kept, tokenize, add_generation_prompt, **how)


class Mute(Characters):
    """Writes nothing for a turn of the assistant's but what begins it."""

    def apply_chat_template(
        self, messages: Sequence[Message], tokenize: bool, add_generation_prompt: bool, **how: bool
    ) -> str:
        return "".join("[assistant " if m["role"] == "assistant" else f"[user {m['content']}]" for m in messages) + (
            "[assistant " if add_generation_prompt else ""
        )


def talk(*turns: tuple[str, str]) -> list[Message]:
    return [{"role": role, "content": content} for role, content in turns]


def said(tokenizer: Characters, messages: Sequence[Message]) -> str:
    ids, mask = UnknownChat(Template(tokenizer)).encode(messages)
    return "".join(chr(i) for i, on in zip(ids, mask, strict=True) if on)


def test_the_mask_covers_each_turn_of_the_assistant_and_what_ends_it() -> None:
    messages = talk(("user", "yo"), ("assistant", "yo"), ("user", "a"), ("assistant", "b"))
    assert said(Characters(), messages) == "yo]b]"


@pytest.mark.parametrize(
    ("tokenizer", "messages", "words"),
    [
        (Characters(), talk(("user", "hi")), "its mask is all zero"),
        (Characters(), talk(("user", "hi"), ("system", "x")), r"refuses it \(a system prompt cannot be last\)"),
        (
            Rewriting(),
            talk(("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")),
            "writes turn 2 differently once others follow",
        ),
        (
            Characters(),
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning": "r"}],
            "turn 2 has reasoning",
        ),
        (
            Forgetful(),
            talk(("critic", "be brief"), ("user", "a"), ("assistant", "b")),
            "leaves out turn 1, of the role 'critic'",
        ),
        (Mute(), talk(("user", "a"), ("assistant", "b")), "writes nothing for turn 2, the assistant's"),
    ],
)
def test_what_cannot_be_told_is_refused(tokenizer: Characters, messages: list[Message], words: str) -> None:
    with pytest.raises(MaskError, match=words):
        said(tokenizer, messages)
