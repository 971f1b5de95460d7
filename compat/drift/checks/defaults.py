"""Defaults that the caller leaves alone and that are not what they were.

A default that turns something on which the callee's own driver then prepares for, and the caller does not, surely
fails. Any other changed default is silent: it is weighed by the branches of the callee's that it decides.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compat.drift.branches import count_branches
from compat.drift.callers import Call
from compat.drift.context import Context
from compat.drift.finding import Finding
from compat.drift.signatures import Parameter, omitted, plain_default


def check(context: Context) -> Iterator[Finding]:
    changed: list[tuple[Call, Parameter, str | None]] = []
    for call in context.caller.calls:
        if call.signature is None:
            continue
        before = context.baseline.callees.get(call.key) if context.baseline else None
        for parameter in omitted(call.node, call.signature):
            then = before.parameters.get(parameter.name) if before else None
            is_known = before is not None and parameter.name in before.parameters
            unprepared = _unprepared(context, call, parameter) if not (is_known and _is_on(then)) else None
            if unprepared:
                yield unprepared
            elif is_known and then is not None and _differs(then, parameter.default):
                changed.append((call, parameter, then))
    weights = count_branches(context.library, {p.name for _, p, _ in changed})
    for call, parameter, then in changed:
        weight = weights.get(parameter.name, 0)
        if weight or call.owner is not None:
            yield _silent(context, call, parameter, then, weight)


def _unprepared(context: Context, call: Call, parameter: Parameter) -> Finding | None:
    if not _is_on(parameter.default) or not isinstance(call.target.node, ast.ClassDef):
        return None
    done = {c.target.name for c in context.caller.calls}
    for prepared in context.driver.prepared:
        left_out = [name for name in prepared.calls if name not in done]
        if prepared.field == parameter.name and left_out:
            since = _since(context, call, parameter)
            message = (
                f"leaves {call.label}'s {parameter.name} at its default {parameter.default}{since}; "
                f"{context.library.name}'s own driver then calls {_listed(left_out)}, which the caller never does"
            )
            return Finding("fails", "changed-default", call.label, parameter.name, message, call.place, prepared.place)
    return None


def _silent(context: Context, call: Call, parameter: Parameter, then: str | None, weight: int) -> Finding:
    message = (
        f"leaves {call.label}'s {parameter.name} at its default, which is {plain_default(parameter.default)}"
        f"{_since(context, call, parameter)}"
    )
    place = call.target.place
    return Finding("silent", "changed-default", call.label, parameter.name, message, call.place, place, weight)


def _since(context: Context, call: Call, parameter: Parameter) -> str:
    before = context.baseline.callees.get(call.key) if context.baseline else None
    if context.baseline is None or before is None or parameter.name not in before.parameters:
        return ""
    then = plain_default(before.parameters[parameter.name])
    return f" (in {context.baseline.callee} {then})" if then != parameter.default else ""


def _is_on(default: str | None) -> bool:
    return plain_default(default) == "True"


def _differs(then: str | None, now: str | None) -> bool:
    """Whether two defaults are different values. None in the place of an object built of its own defaults is not."""
    old, new = plain_default(then), plain_default(now)
    if old is None or new is None or ("None" in (old, new) and (old.endswith("()") or new.endswith("()"))):
        return False
    return old != new


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
