"""Whether a chat template wrote the turns, tools and calls of a conversation, or left some out without a word."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pipeline import tool_calls
from pipeline.conversations import Message, tool_name
from pipeline.masking import MaskError


def look_for_calls(message: Message, number: int, text: str) -> None:
    """Raises MaskError when `text`, what the template made of turn `number`, lacks a call of it."""
    name = tool_calls.left_out(message.get("tool_calls", ()), text)
    if name:
        raise MaskError(not_written(f"turn {number}", name))


def not_written(turn: str, name: str) -> str:
    return (
        f"{turn} calls the tool {name!r}, which the chat template does not write whole; leave the conversation out, or "
        "take the template of a model that calls tools"
    )


def look_for_the_others(messages: Sequence[Message], text: str) -> None:
    """Raises MaskError when the template leaves out a turn that is not the assistant's."""
    for number, message in enumerate(messages, 1):
        content = message["content"].strip()
        as_json = json.dumps(content, ensure_ascii=False)[1:-1]  # so some templates write what a tool answers
        if message["role"] != "assistant" and content not in text and as_json not in text:
            raise MaskError(
                f"the chat template leaves out turn {number}, of the role {message['role']!r}; mend the turns or "
                "the template"
            )


def look_for_tools(tools: Sequence[Any], text: str) -> None:
    """Raises MaskError when the template describes none, or not all, of the tools."""
    name = next((name for name in map(tool_name, tools) if name not in text), None)
    if name:
        raise MaskError(
            f"its tool {name!r} is not in what the chat template writes; take the template of a model that calls "
            "tools, or leave the row's tools out"
        )
