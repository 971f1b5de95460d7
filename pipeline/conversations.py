"""Reads conversations, one at a time whatever the file's size: JSON Lines, or one JSON array of them.

A conversation is an object with its turns in `conversations` (`from` and `value`, as ShareGPT has them) or `messages`
(`role` and `content`). Reasoning stands in a turn's `reasoning_content`, or in its text between <think> and </think>.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import corpus
from pipeline.corpus import Message
from pipeline.json_rows import BadRow, rows
from pipeline.report import StageError
from pipeline.settings import STDLIB

ROLES = {"human": "user", "gpt": "assistant", "model": "assistant", "bot": "assistant", "function": "tool"}
"""Other names of roles; what is not here stays as it is, and the chat format says whether it knows it."""
REASONING = ("reasoning_content", "reasoning")

__all__ = ["Conversation", "Message", "read"]


@dataclass(frozen=True)
class Conversation:
    """One row of the source."""

    place: str
    """`FILE:LINE`, for messages."""
    messages: tuple[Message, ...] = ()
    """Each with role and content, and reasoning where there is one."""
    fault: str = ""
    """Why there are no messages, and after a semicolon what to do about it."""


def read(source: str) -> Iterator[Conversation]:
    """Every row, those with a fault too. Raises StageError when the file cannot be read or holds no row."""
    if source == STDLIB:
        for number, messages in enumerate(corpus.conversations()):
            yield Conversation(f"conversation {number} of {STDLIB}", tuple(messages))
        return
    path = Path(source)
    number = 0
    try:
        for number, row in enumerate(rows(path), 1):
            place = f"{path}:{row.line}" + (f", row {number}" if row.in_array else "")
            if isinstance(row, BadRow):
                yield Conversation(place, fault=row.fault)
                continue
            try:
                yield Conversation(place, _messages(row.value))
            except _Fault as fault:
                yield Conversation(place, fault=str(fault))
    except OSError as error:
        raise StageError(f"{path} cannot be read: {error.strerror}; correct run.conversations.") from error
    if not number:
        raise StageError(f"{path} holds no conversation; point run.conversations at one with data.")


class _Fault(ValueError):
    pass


def _messages(row: Any) -> tuple[Message, ...]:
    if not isinstance(row, dict):
        raise _Fault(f'is no object but {_shown(row)}; write {{"messages": […]}} for each conversation')
    key = next((key for key in ("messages", "conversations") if key in row), None)
    if key is None:
        raise _Fault(f'has no conversation but {_shown(list(row))}; give its turns as "messages" or "conversations"')
    turns = row[key]
    if not turns:
        raise _Fault("is an empty conversation; leave it out")
    if not isinstance(turns, list):
        raise _Fault(f'has no list of turns as "{key}" but {_shown(turns)}; give one')
    system = row.get("system")
    first = ({"role": "system", "content": system},) if isinstance(system, str) and system else ()
    return (*first, *(_message(turn, number) for number, turn in enumerate(turns, 1)))


def _message(turn: Any, number: int) -> Message:
    if not isinstance(turn, dict):
        raise _Fault(f"has a turn {number} that is no object but {_shown(turn)}; give role and content")
    role, content = turn.get("role", turn.get("from")), turn.get("content", turn.get("value"))
    if turn.get("tool_calls"):
        raise _Fault(f"calls a tool in turn {number}, which is not rendered; leave the conversation out")
    if not isinstance(role, str) or not isinstance(content, str):
        raise _Fault(f"has a turn {number} that is not understood: {_shown(turn)}; give role and content, both texts")
    message = {"role": ROLES.get(role, role), "content": content}
    reasoning = next((turn[key] for key in REASONING if turn.get(key)), "")
    if not isinstance(reasoning, str):
        raise _Fault(f"has reasoning in turn {number} that is no text but {_shown(reasoning)}; give a text")
    if reasoning:
        message["reasoning"] = reasoning
    try:
        "".join(message.values()).encode()
    except UnicodeEncodeError:
        raise _Fault(f"has half a character (a lone surrogate) in turn {number}; write it whole") from None
    return message


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
