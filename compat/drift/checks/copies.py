"""Functions that the caller copied from the callee and that read otherwise there by now."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from compat.drift.context import Context
from compat.drift.finding import Finding, Place
from compat.drift.library import Function, Module, Symbol

ALIKE = 0.7
"""Share of the text from which on two bodies count as one function, changed."""


def check(context: Context) -> Iterator[Finding]:
    neighbours = {use.module.rpartition(".")[0] for use in context.caller.imports}
    for module in context.caller.modules:
        for node in module.tree.body:
            if isinstance(node, ast.FunctionDef) and len(_body(node)) > 1 and not node.name.startswith("__"):
                original = next(_originals(context, node, neighbours), None)
                if original is not None and _differs(node, original.node):
                    message = f"carries a copy of {node.name} that no longer reads like the installed one"
                    place = Place(module.file, node.lineno, node.name)
                    yield Finding("silent", "stale-copy", node.name, "", message, place, original.place)


def _originals(context: Context, mine: ast.FunctionDef, packages: set[str]) -> Iterator[Symbol]:
    """Functions of the same name and parameters beside the modules that the caller imports."""
    root = context.library.root
    for package in sorted(packages):
        for path in sorted(root.joinpath(*package.split(".")).glob("*.py")):
            try:
                if f"\ndef {mine.name}(" not in path.read_text(encoding="utf-8", errors="replace"):
                    continue
            except OSError:
                continue
            module = context.library.module(f"{package}.{path.stem}".removesuffix(".__init__"))
            for node in module.tree.body if isinstance(module, Module) else ():
                if isinstance(node, ast.FunctionDef) and node.name == mine.name and _names(node) == _names(mine):
                    assert isinstance(module, Module)
                    yield Symbol(node, module)


def _differs(mine: ast.FunctionDef, theirs: ast.AST) -> bool:
    """Whether two functions are one, changed: neither the same nor something else of the same name."""
    assert isinstance(theirs, ast.FunctionDef)
    a, b = ("\n".join(_body(node)) for node in (mine, theirs))
    return a != b and difflib.SequenceMatcher(None, a, b, autojunk=False).ratio() >= ALIKE


def _body(node: Function) -> list[str]:
    """Its statements as plain text, the docstring left out."""
    statements = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return [ast.unparse(statement) for statement in statements]


def _names(node: ast.FunctionDef) -> list[str]:
    return [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
