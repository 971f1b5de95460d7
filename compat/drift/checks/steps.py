"""Steps that the callee's own driver takes on the objects that the caller drives too, and the caller never takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compat.drift.callers import Call
from compat.drift.context import Context
from compat.drift.driver import CONFIG, CORE, PARTS, Step
from compat.drift.finding import Finding
from compat.drift.library import Library, Symbol


def check(context: Context) -> Iterator[Finding]:
    driven = _driven(context)
    if not driven:
        return
    done = {_step_name(call) for calls in driven.values() for call in calls}
    done |= {call.target.name for call in context.caller.calls if call.owner is None}
    lacking = [step for step in context.driver.steps if step.name not in done and _is_new(context, step)]
    for step in lacking:
        if step.feeds in {other.name for other in lacking}:
            continue  # it only serves a step that is told itself
        calls = driven.get(step.part, []) if step.part else next(iter(driven.values()))
        if calls and not _is_trivial(context, calls[0], step):
            yield from _finding(context, step, calls)


def _is_new(context: Context, step: Step) -> bool:
    return context.baseline is None or (step.part, step.name) not in context.baseline.steps


def _finding(context: Context, step: Step, calls: list[Call]) -> Iterator[Finding]:
    owner = calls[0].owner
    assert owner is not None
    label = owner.symbol.name if step.part else "EngineCore"
    what = f"{label}.{step.name}" if step.part else step.name
    if step.answers:
        asked = next((call for call in calls if _step_name(call) == step.answers), None)
        if asked is None:
            return
        message = f"never calls {what}, with which a step ends whenever {label}.{step.answers} gives None"
        yield Finding("fails", "needed-step", label, step.name, message, asked.place, step.place)
    elif context.baseline is not None:
        message = (
            f"never calls {what}, which {context.library.name}'s own driver always does and did not in "
            f"{context.baseline.callee}"
        )
        yield Finding("may fail", "needed-step", label, step.name, message, calls[0].place, step.place)


def _driven(context: Context) -> dict[str, list[Call]]:
    """Part → the caller's calls on objects of that part."""
    found: dict[str, list[Call]] = {}
    for call in context.caller.calls:
        if call.owner is None:
            continue
        roots = {item.name for item in context.classes.order(call.owner.symbol) if isinstance(item, Symbol)}
        for part in set(PARTS.values()) & roots:
            found.setdefault(part, []).append(call)
    return found


def _step_name(call: Call) -> str:
    """The method, or the worker's method that it is a remote call of."""
    name = call.key.rpartition(".")[2]
    if name == "collective_rpc" and call.node.args:
        remote = call.node.args[0]
        if isinstance(remote, ast.Constant) and isinstance(remote.value, str):
            return remote.value
    return name


def _is_trivial(context: Context, call: Call, step: Step) -> bool:
    """True when leaving the step out changes nothing for this caller."""
    if not step.part:
        function = context.library.resolve(CORE.rpartition(".")[0], step.name)
        return isinstance(function, Symbol) and (
            _is_taken_elsewhere(context.library, function) or _is_of_unset_part(function)
        )
    assert call.owner is not None
    method = context.classes.method(call.owner.symbol, step.name)
    if not isinstance(method, Symbol) or isinstance(method.node, (ast.Module, ast.ClassDef)):
        return False
    body = [n for n in method.node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    return all(isinstance(n, ast.Pass) or (isinstance(n, ast.Return) and _is_constant(n.value)) for n in body)


def _is_taken_elsewhere(library: Library, function: Symbol) -> bool:
    """Whether other code of the engine calls the function as well, so that it does not depend on the driver."""
    for path in sorted((library.root / library.name / "v1").rglob("*.py")):
        file = path.relative_to(library.root).as_posix()
        if file in (function.module.file, f"{CORE.rpartition('.')[0].replace('.', '/')}.py"):
            continue
        try:
            if f"{function.name}(" in path.read_text(encoding="utf-8", errors="replace"):
                return True
        except OSError:
            continue
    return False


def _is_of_unset_part(function: Symbol) -> bool:
    """Whether the function returns at once where an optional part of the configuration is None."""
    assert isinstance(function.node, ast.FunctionDef)
    parts = {
        ast.unparse(node.targets[0])
        for node in function.node.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(f"{CONFIG}.")
    }
    tests = [node for node in function.node.body if isinstance(node, ast.If)]
    first = tests[0] if tests and isinstance(tests[0].body[0], ast.Return) else None
    return first is not None and any(f"{part} is None" in ast.unparse(first.test) for part in parts)


def _is_constant(value: ast.expr | None) -> bool:
    return value is None or isinstance(value, ast.Constant)
