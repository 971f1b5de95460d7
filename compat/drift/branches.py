"""How much a field decides in the callee: the branches whose condition reads it."""

from __future__ import annotations

import ast

from compat.drift.library import Library, Module

ENGINE = ("v1/core", "v1/engine", "v1/executor", "v1/worker")
"""The parts of vLLM that a caller with an executor and a scheduler of its own drives."""


def count_branches(library: Library, fields: set[str]) -> dict[str, int]:
    """Field → number of conditions (if, while, assert, conditional expression) that read an attribute of that name."""
    counts = dict.fromkeys(fields, 0)
    if not fields:
        return counts
    for part in ENGINE:
        for path in sorted((library.root / library.name / part).rglob("*.py")):
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            here = {field for field in fields if f".{field}" in text}
            if not here:
                continue
            dotted = ".".join(path.relative_to(library.root).with_suffix("").parts).removesuffix(".__init__")
            module = library.module(dotted)
            if isinstance(module, Module):
                for test in _tests(module.tree):
                    read = {n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute)}
                    for field in here & read:
                        counts[field] += 1
    return counts


def _tests(tree: ast.Module) -> list[ast.expr]:
    return [n.test for n in ast.walk(tree) if isinstance(n, (ast.If, ast.While, ast.Assert, ast.IfExp))]
