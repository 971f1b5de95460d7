"""The worker's side: methods called by name, clashes of an extension's names, and what it uses of its model runner."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compat.drift.context import Context
from compat.drift.extensions import Extension, find_extensions, runners, worker
from compat.drift.finding import Finding, Place, Severity
from compat.drift.library import Symbol


def check(context: Context) -> Iterator[Finding]:
    base = worker(context.library)
    if base is None:
        return
    extensions = find_extensions(context.caller)
    names, is_open = context.classes.attributes(base)
    own = {method.name for extension in extensions for method in extension.methods}
    yield from _remote_calls(context, base, names | own if not is_open else None)
    candidates = tuple(runners(context.library, base)) if extensions else ()
    for extension in extensions:
        yield from _clashes(extension, base, names)
        yield from _runner_attributes(context, extension, candidates)


def _remote_calls(context: Context, base: Symbol, names: frozenset[str] | None) -> Iterator[Finding]:
    for call in context.caller.calls:
        if names is None or call.key.rpartition(".")[2] != "collective_rpc" or not call.node.args:
            continue
        method = call.node.args[0]
        if isinstance(method, ast.Constant) and isinstance(method.value, str) and method.value not in names:
            message = f"calls the workers' {method.value} by name, which neither {base.name} nor an extension has"
            yield Finding("fails", "unknown-rpc", base.name, method.value, message, call.place, base.place)


def _clashes(extension: Extension, base: Symbol, names: frozenset[str]) -> Iterator[Finding]:
    for method in extension.methods:
        if method.name in names and not method.name.startswith("__"):
            place = _place(extension, method, method.name)
            message = f"defines {method.name} in a worker extension, a name that {base.name} has itself"
            yield Finding("fails", "extension-clash", base.name, method.name, message, place, base.place)


def _runner_attributes(context: Context, extension: Extension, candidates: tuple[Symbol, ...]) -> Iterator[Finding]:
    for method in extension.methods:
        for node in ast.walk(method):
            if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "self.model_runner":
                continue
            lacking = [c for c in candidates if not _has(context, c, node.attr)]
            if not lacking:
                continue
            everywhere = len(lacking) == len(candidates)
            which = "" if everywhere else f" of {lacking[0].module.name}"
            message = f"reads model_runner.{node.attr} in a worker, which {lacking[0].name}{which} does not have"
            severity: Severity = "fails" if everywhere else "may fail"
            place = _place(extension, node, method.name)
            yield Finding(severity, "missing-attribute", lacking[0].name, node.attr, message, place, lacking[0].place)


def _has(context: Context, symbol: Symbol, name: str) -> bool:
    names, is_open = context.classes.attributes(symbol)
    return is_open or name in names


def _place(extension: Extension, node: ast.AST, method: str) -> Place:
    return Place(extension.module.file, getattr(node, "lineno", 1), f"{extension.node.name}.{method}")
