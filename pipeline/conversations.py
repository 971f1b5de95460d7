"""Reads conversations: JSON Lines with `messages` or `conversations`, in either of the two usual spellings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline import corpus
from pipeline.corpus import Message
from pipeline.report import StageError
from pipeline.settings import STDLIB

ROLES = {"human": "user", "gpt": "assistant", "user": "user", "assistant": "assistant", "system": "system"}


def read(source: str, count: int) -> list[tuple[str, list[Message]]]:
    """The first `count` conversations, each with the name of its place for messages. Raises StageError."""
    if source == STDLIB:
        return [(f"conversation {i} of {STDLIB}", c) for i, c in enumerate(corpus.conversations(count))]
    path = Path(source)
    found: list[tuple[str, list[Message]]] = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if len(found) == count:
                    break
                if line.strip():
                    place = f"{path}:{number}"
                    found.append((place, _messages(line, place)))
    except (OSError, UnicodeDecodeError) as error:
        raise StageError(f"{path} cannot be read: {error}; correct run.conversations.") from error
    if not found:
        raise StageError(f"{path} holds no conversation; point run.conversations at a JSON Lines file.")
    return found


def _messages(line: str, place: str) -> list[Message]:
    try:
        row: Any = json.loads(line)
    except ValueError as error:
        raise StageError(f"{place} is no JSON ({error}); write one object a line.") from None
    turns = (row.get("messages") or row.get("conversations")) if isinstance(row, dict) else None
    if not isinstance(turns, list) or not turns:
        raise StageError(f'{place} has no conversation; give a list of turns as "messages" or "conversations".')
    return [_message(turn, place) for turn in turns]


def _message(turn: Any, place: str) -> Message:
    role = (turn.get("role") or turn.get("from")) if isinstance(turn, dict) else None
    content = turn.get("content", turn.get("value")) if isinstance(turn, dict) else None
    if role not in ROLES or not isinstance(content, str):
        raise StageError(
            f"{place} has a turn that is not understood: {json.dumps(turn)[:120]}; give role and content, or from and "
            "value, with a role of system, user or assistant."
        )
    return {"role": ROLES[role], "content": content}
