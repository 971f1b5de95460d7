"""Conversations made from text that ships with Python: the docstrings of its standard library, always the same."""

from __future__ import annotations

import ast
import random
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SYSTEM = "You answer questions on the Python standard library, in the words of its own documentation."
"""Shared by a part of the conversations, so that real prompts share a prefix."""

Message = dict[str, Any]
"""role and content, both texts; of some turns also reasoning, tool_calls, name and tool_call_id."""
_PACKAGES = (
    "",
    "asyncio",
    "collections",
    "concurrent/futures",
    "email",
    "http",
    "importlib",
    "json",
    "logging",
    "unittest",
)


def conversations(count: int = sys.maxsize, seed: int = 0) -> list[list[Message]]:
    """At most `count` conversations of one to three turns, in a shuffled, repeatable order."""
    pairs = list(_pairs())
    random.Random(seed).shuffle(pairs)
    found: list[list[Message]] = []
    while pairs and len(found) < count:
        turns = 1 + len(found) % 3
        taken, pairs = pairs[:turns], pairs[turns:]
        messages = [{"role": "system", "content": SYSTEM}] if len(found) % 2 else []
        for question, text in taken:
            messages += [{"role": "user", "content": question}, {"role": "assistant", "content": text}]
        found.append(messages)
    return found


def _pairs() -> Iterator[tuple[str, str]]:
    library = Path(sysconfig.get_paths()["stdlib"])
    for package in _PACKAGES:
        for path in sorted((library / package).glob("[!_]*.py")):
            yield from _documented(path, path.relative_to(library).with_suffix("").as_posix().replace("/", "."))


def _documented(path: Path, module: str) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            text = ast.get_docstring(node)
            if text and 40 <= len(text) <= 1500:
                yield f"What does {module}.{node.name} do?", text
