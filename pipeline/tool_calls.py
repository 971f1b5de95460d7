"""Calls of tools in a conversation: read from a row, and looked for in what a chat template made of them.

A call is `{"type": "function", "function": {"name", "arguments"}}` as OpenAI's API has it, `arguments` being an object
here or, for templates that join texts, its JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

Call = dict[str, Any]


def read(value: Any) -> list[Call]:
    """The calls of a turn, arguments as objects. Raises ValueError with what is wrong with them."""
    if not isinstance(value, list):
        raise ValueError("whose tool_calls are no list")
    return [_call(one) for one in value]


def _call(value: Any) -> Call:
    function = value.get("function", value) if isinstance(value, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
        raise ValueError("with a tool call that names no function")
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            raise ValueError(f"whose call of {function['name']} has arguments that are no JSON") from None
    if not isinstance(arguments, dict):
        raise ValueError(f"whose call of {function['name']} has arguments that are no object")
    call: Call = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
    return call | ({"id": value["id"]} if isinstance(value.get("id"), str) else {})


def as_text(calls: Sequence[Call]) -> list[Call]:
    """The calls with their arguments as JSON."""
    return [
        call | {"function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
        for call in calls
    ]


def left_out(calls: Sequence[Call], text: str) -> str:
    """The first function whose name or arguments are not in a rendered turn; "" when all are."""
    for call in calls:
        function = call["function"]
        words = [function["name"], *function["arguments"], *_leaves(function["arguments"])]
        if not all(any(form in text for form in _forms(word)) for word in words):
            return str(function["name"])
    return ""


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value


def _forms(value: Any) -> tuple[str, ...]:
    """How a template may write a text, a number, a truth value or null: as it is, as JSON or as Python does."""
    if not isinstance(value, str):
        return (json.dumps(value), str(value))
    return (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
