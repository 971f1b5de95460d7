"""How the callee drives its own parts: which steps its engine core takes, and under which condition.

A caller that drives the executor and the scheduler itself must keep to the same protocol.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from compat.drift.classes import Classes
from compat.drift.library import Library, Symbol
from compat.drift.switches import is_off

CORE = "vllm.v1.engine.core.EngineCore"
METHODS = ("__init__", "_initialize_kv_caches", "step")
PARTS = {"self.model_executor": "Executor", "self.scheduler": "SchedulerInterface"}
"""Expression in the engine core → name of the class that stands at the root of every such part."""
CONFIG = "vllm_config"


@dataclass(frozen=True)
class Step:
    """One call that the engine core makes on a part, or with its configuration."""

    part: str
    """`Executor`, `SchedulerInterface`; '' for a function of the library that is given the configuration."""
    name: str
    place: str
    answers: str = ""
    """The step whose result being None this one answers; '' when it is taken always."""
    feeds: str = ""
    """The step to which alone its result is handed."""


@dataclass(frozen=True)
class Prepared:
    """What the engine core calls only when a field of its configuration is on."""

    field: str
    calls: tuple[str, ...]
    """Names of the library's functions."""
    place: str


@dataclass(frozen=True)
class Driver:
    steps: tuple[Step, ...]
    prepared: tuple[Prepared, ...]


def read_driver(library: Library, classes: Classes) -> Driver:
    """Empty when the library has no engine core that can be read."""
    core = library.find(CORE)
    if not isinstance(core, Symbol) or not isinstance(core.node, ast.ClassDef):
        return Driver((), ())
    steps: list[Step] = []
    prepared: list[Prepared] = []
    for node in core.node.body:
        if isinstance(node, ast.FunctionDef) and node.name in METHODS:
            steps += _steps(node, core, classes, library)
            prepared += _prepared(node, core, classes)
    return Driver(tuple(dict.fromkeys(steps)), tuple(prepared))


def _steps(function: ast.FunctionDef, core: Symbol, classes: Classes, library: Library) -> Iterator[Step]:
    origins = _origins(function)
    taken = [(call, tests, _named(call, core, classes)) for call, tests in _calls(function.body, ())]
    steps = {call: found for call, _, found in taken if found is not None}
    for call, tests, found in taken:
        conditions = [test for test in tests if not _is_usual(test, library)]
        if found is None or len(conditions) > 1:
            continue
        answered = _answered(conditions[0], origins) if conditions else ""
        if answered or not conditions:
            place = f"{core.module.file}:{call.lineno}"
            yield Step(*found, place, answered, _fed_by(call, function, steps))


def _named(call: ast.Call, core: Symbol, classes: Classes) -> tuple[str, str] | None:
    """(part, name) of a call that is a step."""
    if call.args and ast.unparse(call.args[0]) == CONFIG and isinstance(call.func, ast.Name):
        target = classes.named(call.func, core.module)
        if isinstance(target, Symbol) and isinstance(target.node, ast.FunctionDef):
            return "", target.name
    return _part_and_name(call)


def _is_usual(test: ast.expr, library: Library) -> bool:
    """Whether a condition holds unless the operator sets a variable."""
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and is_off(test.operand, library)


def _fed_by(call: ast.Call, function: ast.FunctionDef, steps: dict[ast.Call, tuple[str, str]]) -> str:
    """The one other step whose arguments are all that the result of a call is used in."""
    nodes = list(ast.walk(function))
    target = next((n.targets[0] for n in nodes if isinstance(n, ast.Assign) and n.value is call), None)
    if target is not None:
        uses: list[ast.expr] = [
            n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id == ast.unparse(target)
        ]
    else:
        uses = [call]
    takers = set()
    for use in uses:
        inside = [o for o in steps if o is not call and any(use is n for a in o.args for n in ast.walk(a))]
        takers |= {steps[o][1] for o in inside} or {""}
    return takers.pop() if len(takers) == 1 else ""


def _part_and_name(call: ast.Call) -> tuple[str, str] | None:
    function = call.func
    if not isinstance(function, ast.Attribute):
        return None
    owner = ast.unparse(function.value)
    if function.attr == "collective_rpc" and owner in ("self", *PARTS) and call.args:
        name = call.args[0]
        return ("Executor", name.value) if isinstance(name, ast.Constant) and isinstance(name.value, str) else None
    return (PARTS[owner], function.attr) if owner in PARTS else None


def _origins(function: ast.FunctionDef) -> dict[str, str]:
    """Local name → the part's method that its value comes from, `future.result()` being traced to `execute_model`."""
    origins: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            for inner in ast.walk(node.value):
                if isinstance(inner, ast.Attribute) and ast.unparse(inner.value) in PARTS:
                    origins.setdefault(name, inner.attr)
                elif isinstance(inner, ast.Name) and inner.id in origins:
                    origins.setdefault(name, origins[inner.id])
    return origins


def _answered(test: ast.expr, origins: dict[str, str]) -> str:
    """The method of `X is None`, where X is its result."""
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and len(test.ops) == 1:
        is_none = isinstance(test.ops[0], ast.Is) and ast.unparse(test.comparators[0]) == "None"
        return origins.get(test.left.id, "") if is_none else ""
    return ""


def _calls(body: list[ast.stmt], tests: tuple[ast.expr, ...]) -> Iterator[tuple[ast.Call, tuple[ast.expr, ...]]]:
    """Each call with the conditions that it stands under, in the order of the text; nested functions left out."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, ast.If):
            yield from ((call, tests) for call in _in_expression(node.test))
            yield from _calls(node.body, (*tests, node.test))
            yield from _calls(node.orelse, (*tests, ast.UnaryOp(ast.Not(), node.test)))
        elif isinstance(node, (ast.With, ast.For, ast.While, ast.Try)):
            for part in ("body", "orelse", "finalbody"):
                yield from _calls(getattr(node, part, []), tests)
        else:
            yield from ((call, tests) for call in _in_expression(node))


def _in_expression(node: ast.AST) -> Iterator[ast.Call]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            yield inner


def _prepared(function: ast.FunctionDef, core: Symbol, classes: Classes) -> Iterator[Prepared]:
    for node in ast.walk(function):
        if not isinstance(node, ast.If):
            continue
        calls = []
        for call, _ in _calls(node.body, ()):
            target = classes.named(call.func, core.module) if isinstance(call.func, ast.Name) else None
            if isinstance(target, Symbol) and not isinstance(target.node, ast.Module):
                calls.append(target.name)
        if calls:
            for field in _switched_on(node.test):
                yield Prepared(field, tuple(dict.fromkeys(calls)), f"{core.module.file}:{node.lineno}")


def _switched_on(test: ast.expr) -> Iterator[str]:
    """Fields of a configuration each of which being true makes the condition true."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        for value in test.values:
            yield from _switched_on(value)
    elif isinstance(test, ast.Attribute) and ast.unparse(test.value).endswith("config"):
        yield test.attr
