"""Environment variables of vLLM's that are off unless the operator sets them."""

from __future__ import annotations

import ast

from compat.drift.library import Library, Module


def is_off(expression: ast.expr, library: Library) -> bool:
    """Whether an expression is `envs.NAME` of a variable whose declared default is False."""
    envs = library.module(f"{library.name}.envs")
    if not isinstance(expression, ast.Attribute) or ast.unparse(expression.value) != "envs":
        return False
    if not isinstance(envs, Module):
        return False
    return any(
        isinstance(node, ast.AnnAssign) and ast.unparse(node) == f"{expression.attr}: bool = False"
        for node in ast.walk(envs.tree)
    )
