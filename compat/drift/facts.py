"""What a caller relies on in one version of the callee: signatures, results and the driver's steps, as plain data."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compat.drift.callers import Call, Caller
from compat.drift.driver import Driver


@dataclass(frozen=True)
class CalleeFacts:
    parameters: Mapping[str, str | None]
    """Name → source of its default, None when it is required."""
    returns: str = ""
    """The annotation of the result; '' when there is none."""


@dataclass(frozen=True)
class Facts:
    caller: str
    """`speculators 0.3.0`."""
    callee: str
    """`vLLM 0.11.0`."""
    callees: Mapping[str, CalleeFacts]
    """By the dotted name that the caller uses."""
    steps: frozenset[tuple[str, str]]
    """(part, name) of every step that the driver takes."""
    known: frozenset[tuple[str, str, str]] = frozenset()
    """(kind, callee, name) of what did not fit in this version already."""


def of_callees(calls: tuple[Call, ...]) -> dict[str, CalleeFacts]:
    found = {}
    for call in calls:
        if call.signature is not None:
            parameters = {p.name: p.default for p in call.signature.parameters}
            found[call.key] = CalleeFacts(parameters, returns_of(call))
    return found


def returns_of(call: Call) -> str:
    returns = getattr(call.target.node, "returns", None)
    return "" if returns is None else ast.unparse(returns)


def gather(caller: Caller, driver: Driver, names: tuple[str, str], known: frozenset[tuple[str, str, str]]) -> Facts:
    """The facts of one pair; `names` as in Facts.caller and Facts.callee."""
    return Facts(names[0], names[1], of_callees(caller.calls), frozenset((s.part, s.name) for s in driver.steps), known)


def to_json(facts: Facts) -> dict[str, Any]:
    return {
        "caller": facts.caller,
        "callee": facts.callee,
        "callees": {
            key: {"parameters": dict(value.parameters), "returns": value.returns}
            for key, value in sorted(facts.callees.items())
        },
        "steps": sorted(list(step) for step in facts.steps),
        "known": sorted(list(one) for one in facts.known),
    }


def from_json(data: Mapping[str, Any]) -> Facts:
    return Facts(
        data["caller"],
        data["callee"],
        {key: CalleeFacts(value["parameters"], value["returns"]) for key, value in data["callees"].items()},
        frozenset((part, name) for part, name in data["steps"]),
        frozenset((kind, callee, name) for kind, callee, name in data["known"]),
    )


def arms(annotation: str) -> frozenset[str]:
    """The alternatives of an annotation, however it spells them: `Optional[X]`, `Union[X, None]`, `X | None`."""
    try:
        return frozenset(_arms(ast.parse(annotation, mode="eval").body))
    except SyntaxError:
        return frozenset({annotation})


def _arms(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return sorted(arms(node.value))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _arms(node.left) + _arms(node.right)
    if isinstance(node, ast.Subscript):
        name = ast.unparse(node.value).split(".")[-1]
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Optional":
            return [*_arms(inner[0]), "None"]
        if name == "Union":
            return [arm for item in inner for arm in _arms(item)]
    return [re.sub(r"\b(List|Dict|Tuple|Set)\b", lambda m: m.group(1).lower(), ast.unparse(node))]
