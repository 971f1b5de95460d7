"""Worker extensions: classes of the caller's that vLLM mixes into its workers by their dotted name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from compat.drift.callers import Caller
from compat.drift.library import Library, Module, Symbol
from compat.drift.switches import is_off

WORKER = "vllm.v1.worker.gpu_worker.Worker"
KEYWORD = "worker_extension_cls"


@dataclass(frozen=True, eq=False)
class Extension:
    module: Module
    node: ast.ClassDef

    @property
    def methods(self) -> tuple[ast.FunctionDef, ...]:
        return tuple(n for n in self.node.body if isinstance(n, ast.FunctionDef))


def find_extensions(caller: Caller) -> tuple[Extension, ...]:
    """The classes that the caller names as `worker_extension_cls`."""
    named = {
        keyword.value.value
        for module in caller.modules
        for call in ast.walk(module.tree)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == KEYWORD and isinstance(keyword.value, ast.Constant)
    }
    return tuple(
        Extension(module, node)
        for module in caller.modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and f"{module.name}.{node.name}" in named
    )


def worker(library: Library) -> Symbol | None:
    found = library.find(WORKER)
    return found if isinstance(found, Symbol) and isinstance(found.node, ast.ClassDef) else None


def runners(library: Library, of: Symbol) -> Iterator[Symbol]:
    """The classes that a worker may make its `model_runner` of, without those that only an environment variable
    chooses which is off by default."""
    annotated = [
        node.annotation
        for node in ast.walk(of.node)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "self.model_runner"
    ]
    names = {ast.unparse(a).split(".")[-1] for a in annotated}
    seen = set()
    for node, tests in _imports(list(of.module.tree.body), ()):
        for alias in node.names:
            if alias.name in names and not any(_is_off(test, of, library) for test in tests):
                found = library.resolve(of.module.absolute(node), alias.name)
                if isinstance(found, Symbol) and isinstance(found.node, ast.ClassDef) and found not in seen:
                    seen.add(found)
                    yield found


def _imports(
    body: list[ast.stmt], tests: tuple[ast.expr, ...]
) -> Iterator[tuple[ast.ImportFrom, tuple[ast.expr, ...]]]:
    for node in body:
        if isinstance(node, ast.ImportFrom):
            yield node, tests
        elif isinstance(node, ast.If):
            yield from _imports(node.body, (*tests, node.test))
            yield from _imports(node.orelse, tests)
        else:
            yield from _imports([n for n in getattr(node, "body", []) if isinstance(n, ast.stmt)], tests)


def _is_off(test: ast.expr, of: Symbol, library: Library) -> bool:
    """Whether a condition is a variable that is off by default, or an attribute that is set from one."""
    values = [
        node.value
        for node in ast.walk(of.node)
        if isinstance(node, ast.Assign) and any(ast.unparse(t) == ast.unparse(test) for t in node.targets)
    ]
    return is_off(test, library) or (bool(values) and all(is_off(value, library) for value in values))
