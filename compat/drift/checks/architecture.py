"""What the caller assumes of the target model's class: that it supports EAGLE-3, and where its decoder lies."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compat.drift.architectures import find_architecture
from compat.drift.context import Context
from compat.drift.finding import Finding, Place
from compat.drift.library import Module, Symbol


def check(context: Context) -> Iterator[Finding]:
    if not context.architecture:
        return
    model = find_architecture(context)
    for module in context.caller.modules:
        for function in ast.walk(module.tree):
            if isinstance(function, ast.FunctionDef) and "model_runner.model" in ast.unparse(function):
                yield from _of_function(context, module, function, model)


def _of_function(
    context: Context, module: Module, function: ast.FunctionDef, model: Symbol | None
) -> Iterator[Finding]:
    name = context.architecture
    if model is None:
        message = f"is given {name}, an architecture that the installed {context.library.name} does not have"
        place = Place(module.file, function.lineno, function.name)
        yield Finding("fails", "unsupported-architecture", name, "", message, place)
        return
    bases = {item.name for item in context.classes.order(model) if isinstance(item, Symbol)}
    names, _ = context.classes.attributes(model)
    variables = {
        ast.unparse(node.targets[0])
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "self.model_runner.model"
    }
    for node in ast.walk(function):
        place = Place(module.file, getattr(node, "lineno", function.lineno), function.name)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "supports_eagle3":
            if not any(base.startswith("SupportsEagle3") for base in bases):
                message = f"demands SupportsEagle3 of the model, which {name} is not"
                yield Finding("fails", "unsupported-architecture", name, "SupportsEagle3", message, place, model.place)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in variables and node.attr not in names:
            if not _is_asked_for(function, node.attr):
                message = f"reads {node.attr} of the model, which {name} does not have"
                yield Finding("fails", "unsupported-architecture", name, node.attr, message, place, model.place)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call):
            inner = _given_by(context, model, node.value, variables)
            if inner is None:
                continue
            has, is_open = context.classes.attributes(inner)
            if node.attr not in has and not is_open:
                message = f"reads {node.attr} of the model's {inner.name}, which does not have it"
                yield Finding("fails", "unsupported-architecture", name, node.attr, message, place, inner.place)


def _given_by(context: Context, model: Symbol, call: ast.Call, variables: set[str]) -> Symbol | None:
    """The class of `model.method()` where the method is `return self.part` and the part is built in plain sight."""
    if not isinstance(call.func, ast.Attribute) or ast.unparse(call.func.value) not in variables:
        return None
    method = context.classes.method(model, call.func.attr)
    if not isinstance(method, Symbol) or not isinstance(method.node, ast.FunctionDef):
        return None
    last = method.node.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    if isinstance(value, ast.Attribute) and ast.unparse(value.value) == "self":
        return context.classes.made(model, value.attr)
    return None


def _is_asked_for(function: ast.FunctionDef, name: str) -> bool:
    """Whether the function itself asks `hasattr(model, name)` first."""
    asked = (n for n in ast.walk(function) if isinstance(n, ast.Call) and ast.unparse(n.func) == "hasattr")
    return any(len(n.args) == 2 and ast.unparse(n.args[1]) == repr(name) for n in asked)
