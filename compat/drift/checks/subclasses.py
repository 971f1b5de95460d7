"""Classes of the caller's that extend the callee's: what the base newly demands, and overrides that take less."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compat.drift.context import Context
from compat.drift.finding import Finding, Place, Severity
from compat.drift.library import Function, Module, Symbol
from compat.drift.signatures import misfits, of_class, of_function


def check(context: Context) -> Iterator[Finding]:
    for module in context.caller.modules:
        names = context.caller.names[module]
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            for expression in node.bases:
                base = names.symbol(expression)
                if base is not None and isinstance(base.node, ast.ClassDef):
                    yield from _abstract(context, module, node, base)
                    yield from _overrides(context, module, node, base)
                    yield from _super_calls(context, module, node, base)


def _abstract(context: Context, module: Module, node: ast.ClassDef, base: Symbol) -> Iterator[Finding]:
    if len(node.bases) > 1 or _is_extended(context, node):
        return  # another base, or a class below, may have it
    own = {n.name for n in node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
    own |= {ast.unparse(t) for n in node.body if isinstance(n, ast.Assign) for t in n.targets}
    done: set[str] = set()
    for item in context.classes.order(base):
        if isinstance(item, str):
            continue
        assert isinstance(item.node, ast.ClassDef)
        for method in _methods(item.node):
            if method.name in done | own:
                continue
            done.add(method.name)
            if any(ast.unparse(d).split(".")[-1] == "abstractmethod" for d in method.decorator_list):
                message = f"extends {base.name} without {method.name}, which that demands"
                place = Place(module.file, node.lineno, node.name)
                at = f"{item.module.file}:{method.lineno}"
                yield Finding("fails", "missing-override", base.name, method.name, message, place, at)


def _is_extended(context: Context, node: ast.ClassDef) -> bool:
    """Whether the caller has a class below this one, so that this one need not be whole."""
    classes = (n for module in context.caller.modules for n in ast.walk(module.tree) if isinstance(n, ast.ClassDef))
    return any(ast.unparse(base).split(".")[-1] == node.name for one in classes for base in one.bases)


def _overrides(context: Context, module: Module, node: ast.ClassDef, base: Symbol) -> Iterator[Finding]:
    for method in _methods(node):
        if method.name.startswith("__"):
            continue
        original = context.classes.method(base, method.name)
        if not isinstance(original, Symbol) or not isinstance(original.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        mine, theirs = of_function(method, _is_bound(method)), of_function(original.node, _is_bound(original.node))
        lacking = [p for p in theirs.parameters if p.name not in mine.names]
        extra_required = [p.name for p in mine.parameters if p.default is None and p.name not in theirs.names]
        if not lacking or mine.more_keywords or mine.more_positional or extra_required:
            continue  # other names for the same positions cannot be told from fewer
        for parameter in lacking:
            message = f"overrides {base.name}.{method.name} and does not take {parameter.name!r}, which that takes"
            place = Place(module.file, method.lineno, f"{node.name}.{method.name}")
            severity: Severity = "fails" if parameter.default is None else "may fail"
            label = f"{base.name}.{method.name}"
            yield Finding(severity, "narrow-override", label, parameter.name, message, place, original.place)


def _super_calls(context: Context, module: Module, node: ast.ClassDef, base: Symbol) -> Iterator[Finding]:
    for method in _methods(node):
        for call in ast.walk(method):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if ast.unparse(call.func.value) != "super()" or len(node.bases) > 1:
                continue
            place = Place(module.file, call.lineno, f"{node.name}.{method.name}")
            label = f"{base.name}.{call.func.attr}"
            if call.func.attr == "__init__":
                signature, at = of_class(base, context.classes), base.place
            else:
                found = context.classes.method(base, call.func.attr)
                if found is None:
                    message = f"calls {label}, which {base.name} does not have"
                    yield Finding("fails", "missing-method", base.name, call.func.attr, message, place, base.place)
                if not isinstance(found, Symbol) or not isinstance(found.node, ast.FunctionDef):
                    continue
                signature, at = of_function(found.node, _is_bound(found.node)), found.place
            for misfit in misfits(call, signature) if signature else ():
                message = misfit.told(f"super().{call.func.attr} of {base.name}")
                yield Finding("fails", misfit.kind, label, misfit.name, message, place, at)


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    yield from (n for n in node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _is_bound(node: Function) -> bool:
    return not any(ast.unparse(d) == "staticmethod" for d in node.decorator_list)
