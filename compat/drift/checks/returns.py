"""Results that the caller uses and that are of another type than in the version it declares."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compat.drift.callers import Call
from compat.drift.context import Context
from compat.drift.facts import arms, returns_of
from compat.drift.finding import Finding, Severity


def check(context: Context) -> Iterator[Finding]:
    if context.baseline is None:
        return
    for call in context.caller.calls:
        before = context.baseline.callees.get(call.key)
        now = returns_of(call)
        if before is None or not before.returns or not now or call.result == "unused":
            continue
        gained = arms(now) - arms(before.returns)
        if not gained or (call.result == "used" and "None" not in gained):
            continue  # a result that is only handed on is the business of whoever takes it
        deciding = _deciding(call.target.node)
        given = sorted(deciding & _given(call))
        if deciding and not given:
            continue  # this call gets what it always got
        because = f", decided by the {', '.join(given)} that it passes" if given else ""
        message = (
            f"uses the result of {call.label}, which is {now}{because} (in {context.baseline.callee} {before.returns})"
        )
        severity: Severity = "fails" if given and call.result == "taken apart" else "may fail"
        yield Finding(severity, "changed-return", call.label, "", message, call.place, call.target.place)


def _deciding(function: ast.AST) -> set[str]:
    """Parameters on which a `return X if … else Y` of the function depends, through plain other names too."""
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return set()
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    stands_for = {a.arg: a.arg for a in arguments}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in stands_for:
            stands_for.update((ast.unparse(t), stands_for[node.value.id]) for t in node.targets)
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.IfExp):
            read = {n.id for n in ast.walk(node.value.test) if isinstance(n, ast.Name)}
            found |= {stands_for[name] for name in read if name in stands_for}
    return found


def _given(call: Call) -> set[str]:
    names = call.signature.names if call.signature else ()
    return {k.arg for k in call.node.keywords if k.arg} | set(names[: len(call.node.args)])
