"""A chat format that is none of the families': the mask comes from rendering the conversation turn by turn.

What is rendered up to an assistant turn with the generation prompt, and up to its end, differs by the token ids that
the assistant says. No special token need be known, but the template must not write a turn differently once others
follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.chat.calls import look_for_calls, look_for_the_others, look_for_tools
from pipeline.chat.template import Template
from pipeline.conversations import Message
from pipeline.masking import MaskError


class UnknownChat:
    """Makes samples of conversations."""

    name = "unknown"
    marks = None
    erased = 0

    def __init__(self, template: Template) -> None:
        self._template = template

    def encode(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> tuple[list[int], list[int]]:
        """(token_ids, loss_mask) of a whole conversation, equally long, uncut. Raises MaskError."""
        text = self._template.render(messages, False, tools)
        look_for_the_others(messages, text)
        look_for_tools(tools, text)
        ids = self._template.encode(text)
        mask = [0] * len(ids)
        for turn, message in enumerate(messages):
            if message.get("reasoning"):
                raise MaskError(
                    f"turn {turn + 1} has reasoning, and how this chat template writes it is not known; take it out"
                )
            if message["role"] != "assistant":
                continue
            before, until = self._ids(messages[:turn], True, tools), self._ids(messages[: turn + 1], False, tools)
            if ids[: len(until)] != until or until[: len(before)] != before:
                raise MaskError(
                    f"the chat template writes turn {turn + 1} differently once others follow, so its tokens cannot "
                    "be told; leave the later turns out"
                )
            if len(until) == len(before):
                raise MaskError(f"the chat template writes nothing for turn {turn + 1}, the assistant's; leave it out")
            if message.get("tool_calls"):
                look_for_calls(message, turn + 1, self._template.decode(until[len(before) :]))
            mask[len(before) : len(until)] = [1] * (len(until) - len(before))
        if not any(mask):
            raise MaskError("no token of it is said by the assistant, so its mask is all zero; leave it out")
        return ids, mask

    def _ids(self, messages: Sequence[Message], prompt: bool, tools: Sequence[Any]) -> list[int]:
        return self._template.encode(self._template.render(messages, prompt, tools)) if messages or prompt else []
