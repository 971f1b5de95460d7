"""The callee's classes whose method a function of the caller's may replace: it is bound to objects at run time, so
that their class is only known by what the function uses of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compat.drift.classes import Classes
from compat.drift.library import Function, Library, Module, Symbol
from compat.drift.signatures import of_function

MODELS = "model_executor/models"


@dataclass(frozen=True, eq=False)
class Replacement:
    """`object.method = MethodType(function, object)`."""

    module: Module
    function: ast.FunctionDef
    method: str
    """The name that it takes the place of, `forward`."""
    given: frozenset[str]
    """Attributes that the caller puts onto the object itself."""

    @property
    def parameters(self) -> list[str]:
        arguments = self.function.args
        return [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)][1:]

    @property
    def required(self) -> list[str]:
        arguments = self.function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        return [a.arg for a in positional[: len(positional) - len(arguments.defaults)]][1:]

    @cached_property
    def used(self) -> frozenset[str]:
        """What the function uses of its object, without what the caller gave it."""
        this = self.function.args.args[0].arg
        names = {n.attr for n in ast.walk(self.function) if isinstance(n, ast.Attribute) and _is(n.value, this)}
        return frozenset(names) - self.given


def find_replacements(module: Module) -> Iterator[Replacement]:
    functions = {n.name: n for n in module.tree.body if isinstance(n, ast.FunctionDef) and n.args.args}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or not node.value.args:
            continue
        target, bound = node.targets[0], node.value.args[0]
        if not isinstance(target, ast.Attribute) or not ast.unparse(node.value.func).endswith("MethodType"):
            continue
        if isinstance(bound, ast.Name) and bound.id in functions:
            given = _stored_on(module, ast.unparse(target.value))
            yield Replacement(module, functions[bound.id], target.attr, given)


def _stored_on(module: Module, name: str) -> frozenset[str]:
    return frozenset(
        n.attr
        for n in ast.walk(module.tree)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and ast.unparse(n.value) == name
    )


def look_alikes(replacement: Replacement, library: Library, classes: Classes, any_model: bool) -> list[Symbol]:
    """Model classes that have all but at most one of the attributes used, and a method that demands the same.

    Where the caller first asks `supports_x(model)`, only the parts of models that are marked so can be meant, unless
    `any_model` says that the target is known: then whether it is marked is another finding.
    """
    if len(replacement.used) < 2:
        return []
    marks = frozenset() if any_model else _marks(replacement, library)
    found: list[Symbol] = []
    for module in _modules(replacement, library, found):
        own = [Symbol(n, module) for n in module.tree.body if isinstance(n, ast.ClassDef)]
        alike = [symbol for symbol in own if _is_alike(symbol, replacement, classes)]
        found += [symbol for symbol in alike if not marks or _is_part_of_marked(symbol, own, marks, classes)]
    return sorted(found, key=lambda symbol: (symbol.name, symbol.place))


def _modules(replacement: Replacement, library: Library, found: list[Symbol]) -> Iterator[Module]:
    """Modules of models whose text has all but at most one of the attributes, then those that extend what was found.

    Parsing is what the probe's time goes into, so a look at the text comes first.
    """
    texts = {path: _text(path) for path in sorted((library.root / library.name / MODELS).rglob("*.py"))}
    used = replacement.used
    chosen = [p for p, text in texts.items() if sum(f".{name}" in text for name in used) >= len(used) - 1]
    while chosen:
        for path in chosen:
            del texts[path]
            module = library.module(".".join(path.relative_to(library.root).with_suffix("").parts))
            if isinstance(module, Module):
                yield module
        bases = "|".join(re.escape(symbol.name) for symbol in found)
        extends = re.compile(rf"class \w+\([^)]*\b({bases})\b")
        chosen = [path for path, text in texts.items() if bases and extends.search(text)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _is_alike(symbol: Symbol, replacement: Replacement, classes: Classes) -> bool:
    original = classes.method(symbol, replacement.method)
    if not isinstance(original, Symbol) or not isinstance(original.node, ast.FunctionDef):
        return False
    demanded = [p.name for p in of_function(original.node, bound=True).parameters if p.default is None]
    began = [a.arg for a in original.node.args.args][1 : 1 + len(replacement.required)]
    if began != replacement.required or not set(demanded) <= set(replacement.parameters):
        return False
    names, is_open = classes.attributes(symbol)
    return not is_open and len(replacement.used - names) <= 1


def _marks(replacement: Replacement, library: Library) -> frozenset[str]:
    """Classes that the functions of the caller's module which bind the replacement ask a model to be of."""
    marks: set[str] = set()
    binders = [n for n in ast.walk(replacement.module.tree) if isinstance(n, ast.FunctionDef)]
    for binder in (n for n in binders if f"MethodType({replacement.function.name}" in ast.unparse(n)):
        for call in ast.walk(binder):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id.startswith("supports_"):
                asked = library.resolve(f"{library.name}.{MODELS.replace('/', '.')}.interfaces", call.func.id)
                if isinstance(asked, Symbol):
                    marks |= set(re.findall(r"\bSupports\w+", ast.unparse(asked.node)))
    return frozenset(marks)


def _is_part_of_marked(symbol: Symbol, own: list[Symbol], marks: frozenset[str], classes: Classes) -> bool:
    """Whether a class of the same module that is marked names this one."""
    for outer in own:
        if outer is symbol or not any(isinstance(n, ast.Name) and n.id == symbol.name for n in ast.walk(outer.node)):
            continue
        bases = {item.name if isinstance(item, Symbol) else item for item in classes.order(outer)}
        if bases & marks:
            return True
    return False


def loop_calls(function: Function, attribute: str) -> Iterator[ast.Call]:
    """Calls of the loop variable of `for … in … self.attribute …`."""
    for node in ast.walk(function):
        if isinstance(node, ast.For) and f".{attribute}" in ast.unparse(node.iter):
            variables = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id in variables:
                    yield inner


def _is(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
