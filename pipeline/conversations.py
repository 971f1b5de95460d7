"""Reads conversations, one at a time whatever the file's size: JSON Lines, or one JSON array of them.

A conversation is an object with its turns in `conversations` (`from` and `value`, as ShareGPT has them) or `messages`
(`role` and `content`, a text or a list of parts of text). Reasoning stands in a turn's `reasoning_content`, or in its
text between <think> and </think>; calls of tools in `tool_calls`, and what tools there are in the row's `tools`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import corpus, tool_calls
from pipeline.corpus import Message
from pipeline.json_rows import BadRow, rows
from pipeline.report import StageError
from pipeline.settings import STDLIB

ROLES = {"human": "user", "gpt": "assistant", "model": "assistant", "bot": "assistant", "function": "tool"}
"""Other names of roles; what is not here stays as it is, and the chat format says whether it knows it."""
REASONING = ("reasoning_content", "reasoning")
NAMES = ("name", "tool_call_id")
"""Of a turn that tells what a tool gave: some templates write them."""

__all__ = ["Conversation", "Message", "read"]


@dataclass(frozen=True)
class Conversation:
    """One row of the source."""

    place: str
    """`FILE:LINE`, for messages."""
    messages: tuple[Message, ...] = ()
    tools: tuple[Any, ...] = ()
    """Descriptions of the tools that the assistant may call."""
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
                yield Conversation(place, _messages(row.value), _tools(row.value))
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
    keys = [key for key in ("messages", "conversations") if key in row]
    key = next((key for key in keys if row[key]), next(iter(keys), None))  # in a table both are there, one of them null
    if key is None:
        raise _Fault(f'has no conversation but {_shown(list(row))}; give its turns as "messages" or "conversations"')
    turns = row[key]
    if not turns:
        raise _Fault("is an empty conversation; leave it out")
    if not isinstance(turns, list):
        raise _Fault(f'has no list of turns as "{key}" but {_shown(turns)}; give one')
    system = row.get("system")
    first = ({"role": "system", "content": system},) if isinstance(system, str) and system else ()
    _check_characters(first, "its system prompt")
    return (*first, *(_message(turn, number) for number, turn in enumerate(turns, 1)))


def _message(turn: Any, number: int) -> Message:
    if not isinstance(turn, dict):
        raise _Fault(f"has a turn {number} that is no object but {_shown(turn)}; give role and content")
    role, content = turn.get("role", turn.get("from")), turn.get("content", turn.get("value"))
    if isinstance(content, list):
        content = _joined(content, number)
    elif content is None and turn.get("tool_calls"):
        content = ""
    if not isinstance(role, str) or not isinstance(content, str):
        raise _Fault(f"has a turn {number} that is not understood: {_shown(turn)}; give role and content, both texts")
    message: Message = {"role": ROLES.get(role, role), "content": content}
    reasoning = next((turn[key] for key in REASONING if turn.get(key)), "")
    if not isinstance(reasoning, str):
        raise _Fault(f"has reasoning in turn {number} that is no text but {_shown(reasoning)}; give a text")
    if reasoning:
        message["reasoning"] = reasoning
    if turn.get("tool_calls"):
        try:
            message["tool_calls"] = tool_calls.read(turn["tool_calls"])
        except ValueError as error:
            raise _Fault(f"has a turn {number} {error}; give each a function with name and arguments") from None
    message |= {key: turn[key] for key in NAMES if isinstance(turn.get(key), str)}
    _check_characters(message, f"turn {number}")
    return message


def _check_characters(value: Any, place: str) -> None:
    """A tokenizer takes no text with half a character in it."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _Fault(f"has half a character (a lone surrogate) in {place}; write it whole") from None


def _joined(parts: list[Any], number: int) -> str:
    """The text of content parts, which is all that a language model reads."""
    texts = []
    for part in parts:
        if not isinstance(part, dict):
            raise _Fault(
                f'has a part in turn {number} that is no object but {_shown(part)}; give {{"type": "text", …}}'
            )
        kind, text = part.get("type", "text"), part.get("text")
        if kind != "text":
            raise _Fault(
                f"has a part of the type {_shown(kind)} in turn {number}, and only text is trained on; leave the "
                "conversation out"
            )
        if not isinstance(text, str):
            raise _Fault(f'has a part in turn {number} that is no text but {_shown(part)}; give {{"type": "text", …}}')
        texts.append(text)
    return "".join(texts)


def _tools(row: Any) -> tuple[Any, ...]:
    tools = row.get("tools") or []
    if isinstance(tools, str):  # so some data sets keep them in a column
        try:
            tools = json.loads(tools)
        except ValueError:
            raise _Fault("has tools that are no JSON; give a list of them") from None
    if not isinstance(tools, list) or not all(isinstance(tool, dict) and tool_name(tool) for tool in tools):
        raise _Fault(f"has tools that are not understood: {_shown(tools)}; give a list of functions with their names")
    _check_characters(tools, "its tools")
    return tuple(tools)


def tool_name(tool: dict[str, Any]) -> str:
    """The name of a tool's description; "" when it has none."""
    function = tool.get("function", tool)
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else ""


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
