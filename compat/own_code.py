"""A patch's own code: what it does, for reading, and by which digest a run records it."""

from __future__ import annotations

import ast
import hashlib
import inspect
from pathlib import Path

from compat.patch import Patch


def digest(patch: Patch) -> str:
    """sha256 of the file that the patch is written in."""
    file = inspect.getsourcefile(patch.probe)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""


def text(patch: Patch) -> str:
    """`apply` and whatever of the patch's own file it uses, in the order of the file; "" where there is no `apply`."""
    file = inspect.getsourcefile(patch.apply) if patch.apply else None
    if not patch.apply or not file:
        return ""
    source = Path(file).read_text(encoding="utf-8")
    wanted = {patch.apply.__name__}
    blocks = {name: node for node in ast.parse(source).body for name in _names(node)}
    while True:
        used = {n.id for name in wanted & blocks.keys() for n in ast.walk(blocks[name]) if isinstance(n, ast.Name)}
        if used & blocks.keys() <= wanted:
            break
        wanted |= used & blocks.keys()
    shown = sorted({_span(blocks[name]) for name in wanted & blocks.keys()})
    lines = source.splitlines()
    return "\n\n".join("\n".join(lines[start:end]) for start, end in shown)


def _span(node: ast.stmt) -> tuple[int, int]:
    """Its lines, decorators included, as a slice."""
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)]) - 1, node.end_lineno or node.lineno


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []
