"""The chat format of a known family: the mask comes from its special tokens, and what it covers is compared with what
the assistant says."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from pipeline import masking, tool_calls
from pipeline.chat.calls import look_for_the_others, look_for_tools, not_written
from pipeline.chat.template import Template
from pipeline.conversations import Message
from pipeline.families.family import Family
from pipeline.masking import Marks, MaskError

PROBE: list[Message] = [{"role": "user", "content": "1"}]


class KnownChat:
    """Makes samples of conversations. `erased` counts reasonings of earlier turns: no model is shown them again, so
    they are in no sample. Raises MaskError when the template asks for the assistant in a way the family has not."""

    def __init__(self, template: Template, family: Family) -> None:
        self.name = family.name
        self.erased = 0
        self._template = template
        self._family = family
        self._reasons = bool(family.thinks) and all(len(template.encode(token)) == 1 for token in family.thinks)
        self._opening = self._prompt(PROBE)[1]
        openings = {self._opening, *(family.empty if self._reasons else ())} - {""}
        choices = "|".join(re.escape(opening) for opening in sorted(openings, key=len, reverse=True))
        self._breaks = re.compile(f"({re.escape(family.header)}(?:{choices})?)")
        ends = [ids[0] for ids in map(template.encode, family.ends) if len(ids) == 1]
        self.marks = Marks.of(template.encode(family.header), ends, [template.encode(o) for o in openings])

    def encode(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> tuple[list[int], list[int]]:
        """(token_ids, loss_mask) of a whole conversation, equally long, uncut. Raises MaskError."""
        self._check(messages)
        plain, reasoning = self._apart(messages)
        said = [message for message in plain if message["role"] == "assistant"]
        if reasoning:
            text, answer = self._with_reasoning(plain, reasoning, tools)
            said[-1] = {"content": answer}
        else:
            text = self._template.render(self._as_written(plain), False, tools)
        ids = self._tokens(text)
        self._compare(said, ids)
        look_for_the_others(plain, text)
        look_for_tools(tools, text)
        return ids, masking.mask(ids, self.marks)

    def _check(self, messages: Sequence[Message]) -> None:
        family = self._family
        for number, message in enumerate(messages, 1):
            if message["role"] not in family.roles:
                raise MaskError(
                    f"turn {number} has the role {message['role']!r}, which {family.name} does not know; use one of "
                    f"{', '.join(family.roles)}"
                )
            text = message["content"] + message.get("reasoning", "")
            text += json.dumps(message.get("tool_calls", ""), ensure_ascii=False)
            held = next((t for t in (*family.special, *family.ends) if t in text and t not in family.thinks), None)
            if held:
                raise MaskError(
                    f"the text of turn {number} holds {held!r}, which would end or begin a turn in its midst; take it "
                    "out of the text"
                )
        if all(message["role"] != "assistant" for message in messages):
            raise MaskError("no token of it is said by the assistant, so its mask is all zero; leave it out")

    def _apart(self, messages: Sequence[Message]) -> tuple[list[Message], str]:
        """The messages without reasoning, and the reasoning of the last one."""
        plain: list[Message] = []
        kept = ""
        for number, message in enumerate(messages, 1):
            content, reasoning = message["content"], message.get("reasoning", "")
            if message["role"] == "assistant" and self._reasons and not reasoning and "</think>" in content:
                reasoning, _, content = content.partition("</think>")
                reasoning, content = reasoning.replace("<think>", "", 1), content.lstrip("\n")
            reasoning = reasoning.strip()
            if reasoning and not self._reasons:
                raise MaskError(
                    f"turn {number} has reasoning, and this target's tokenizer has no tokens for it; put it into the "
                    "content, or take it out"
                )
            if message["role"] == "assistant" and not (content.strip() or reasoning or message.get("tool_calls")):
                raise MaskError(f"turn {number} is the assistant's and empty; leave it out")
            self.erased += bool(reasoning) and number < len(messages)
            kept = reasoning
            plain.append({**message, "content": content})
            plain[-1].pop("reasoning", None)
        return plain, kept

    def _as_written(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with the arguments of calls as the family's templates take them."""
        if not self._family.joins_arguments:
            return list(messages)
        return [m | {"tool_calls": tool_calls.as_text(m["tool_calls"])} if "tool_calls" in m else m for m in messages]

    def _with_reasoning(self, messages: Sequence[Message], reasoning: str, tools: Sequence[Any]) -> tuple[str, str]:
        """The text as the engine sees it, a prompt by the template and what the model says to it; and the latter.

        The template itself may erase the reasoning of the very turn that is to be learnt.
        """
        if messages[-1].get("tool_calls"):
            raise MaskError(
                "its last turn reasons and calls a tool, which only the model itself writes rightly; end it with the "
                "turn that answers"
            )
        prompt, opening = self._prompt(messages[:-1], tools)
        styles = self._family.reasoning
        before, after = next((style for style in styles if style[0] == opening), styles[0])
        if opening and opening != before:
            raise MaskError(
                f"it has reasoning, and the chat template ends a prompt with {opening!r}, after which none can follow; "
                "use the template of a model that reasons"
            )
        said = ("" if opening else before) + reasoning + after + messages[-1]["content"].strip("\n")
        return prompt + said + self._family.ends[0], said

    def _prompt(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> tuple[str, str]:
        """A prompt and what it opens the assistant's turn with."""
        family = self._family
        text = self._template.render(self._as_written(messages), True, tools)
        opening = text.rpartition(family.header)[2]
        if opening not in ("", *family.empty, *(before for before, _ in family.reasoning)):
            raise MaskError(
                f"the chat template ends a prompt with {opening[-40:]!r}, which {family.name} does not; use the "
                "model's own template"
            )
        return text, opening

    def _tokens(self, text: str) -> list[int]:
        """Token ids with a break wherever a prompt ends: no token may reach across into what the model says."""
        return [token for piece in self._breaks.split(text) if piece for token in self._template.encode(piece)]

    def _compare(self, said: Sequence[Message], ids: Sequence[int]) -> None:
        """What the mask covers must be the assistant's texts, one by one, with its calls behind them."""
        found = list(masking.turns(ids, self.marks))
        if len(found) != len(said):
            raise MaskError(
                f"the assistant has {len(said)} turns in it and the chat template writes {len(found)}; mend the turns "
                "or the template"
            )
        for number, (message, turn) in enumerate(zip(said, found, strict=True), 1):
            if not turn or ids[turn[-1]] not in self.marks.ends:
                raise MaskError(
                    f"the assistant's turn {number} has no {self._family.ends[0]!r} at its end; mend the chat template"
                )
            wanted, calls = message["content"], message.get("tool_calls", ())
            text = self._template.decode(ids[turn.start : turn.stop - 1])
            if calls and (name := tool_calls.left_out(calls, text)):
                raise MaskError(not_written(f"the assistant's turn {number}", name))
            if not _plain(text).startswith(_plain(wanted)) if calls else _plain(text) != _plain(wanted):
                raise MaskError(
                    f"the assistant's turn {number} says {wanted[:40]!r} and its tokens say {text[:40]!r}; use a chat "
                    "template and a tokenizer that leave the text as it is"
                )


def _plain(text: str) -> str:
    """Tokenizers may compose characters, templates may strip texts."""
    return unicodedata.normalize("NFC", text).strip()
