"""Where a caller shows that it knows of the drift itself: what it catches, asks for first, or chooses by version."""

from __future__ import annotations

import ast

ANY_IMPORT, ANY_USE = "(any import)", "(any use)"
_IMPORTS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
_USES = {"AttributeError", "TypeError", "Exception", "BaseException"}


def of_try(node: ast.Try) -> frozenset[str]:
    """What is guarded in its body: ANY_IMPORT, ANY_USE."""
    caught = {name for handler in node.handlers for name in _caught(handler)}
    guarded = {ANY_IMPORT} if caught & _IMPORTS else set()
    return frozenset(guarded | ({ANY_USE} if caught & _USES else set()))


def of_if(node: ast.If) -> frozenset[str]:
    """What is guarded in its branches: those, and the names that its condition has as texts (`hasattr(x, "name")`)."""
    words = {n.value for n in ast.walk(node.test) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    test = ast.unparse(node.test)
    if "version" in test.lower():
        words |= {ANY_IMPORT, ANY_USE}
    if test.split(".")[-1] == "TYPE_CHECKING":
        words.add(ANY_IMPORT)
    return frozenset(words)


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    nodes = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(n).split(".")[-1] for n in nodes}
