"""The types of a caller's expressions, as far as constructors, annotations and the callee's own annotations tell."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from compat.drift.classes import Classes, bare_annotation
from compat.drift.library import Library, Module, Symbol


@dataclass(frozen=True, eq=False)
class Instance:
    """An object of a class of the callee's. `key` is the class's dotted name as the caller knows it."""

    symbol: Symbol
    key: str
    exact: bool = False
    """True of what a constructor gave; an annotation may stand for a subclass, which has more."""


@dataclass
class Scope:
    """What is known inside one function of the caller's."""

    owner: ast.ClassDef | None = None
    attributes: dict[str, Instance | None] = field(default_factory=dict)
    """Of `self`; shared by the methods of a class. None when the sources disagree."""
    locals: dict[str, Instance | None] = field(default_factory=dict)


class Names:
    """What the imported names of one module of the caller's mean in the callee."""

    def __init__(self, module: Module, library: Library, classes: Classes) -> None:
        self.module = module
        self._library = library
        self._classes = classes
        self._dotted: dict[str, str] = {}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] == library.name:
                        short = library.name if alias.asname is None else alias.name
                        self._dotted[alias.asname or library.name] = short
            elif isinstance(node, ast.ImportFrom) and module.absolute(node).split(".")[0] == library.name:
                for alias in node.names:
                    self._dotted[alias.asname or alias.name] = f"{module.absolute(node)}.{alias.name}"
        self._own = {n.name: n for n in ast.walk(module.tree) if isinstance(n, ast.ClassDef)}

    def dotted(self, expression: ast.expr) -> str | None:
        """The callee's dotted name that an expression of names means, `vllm.config.CacheConfig`."""
        if isinstance(expression, ast.Name):
            return self._dotted.get(expression.id)
        if isinstance(expression, ast.Attribute):
            inner = self.dotted(expression.value)
            return f"{inner}.{expression.attr}" if inner else None
        return None

    def symbol(self, expression: ast.expr) -> Symbol | None:
        dotted = self.dotted(expression)
        if dotted is None or "." not in dotted:
            return None
        found = self._library.find(dotted)
        return found if isinstance(found, Symbol) else None

    def type_of(self, expression: ast.expr, scope: Scope) -> Instance | None:
        """The class of the callee's that an expression is an instance of, if that can be told."""
        if isinstance(expression, (ast.NamedExpr, ast.Await)):
            return self.type_of(expression.value, scope)
        if isinstance(expression, ast.Name):
            return scope.locals.get(expression.id)
        if isinstance(expression, ast.Attribute):
            if is_self(expression.value) and scope.owner is not None:
                return scope.attributes.get(expression.attr)
            owner = self.type_of(expression.value, scope)
            symbol = self._classes.field_type(owner.symbol, expression.attr) if owner else None
            return _instance(symbol)
        if isinstance(expression, ast.Call):
            return self._result(expression, scope)
        return None

    def _result(self, call: ast.Call, scope: Scope) -> Instance | None:
        symbol = self.symbol(call.func)
        if symbol is not None:
            if isinstance(symbol.node, ast.ClassDef):
                return Instance(symbol, self.dotted(call.func) or symbol.name, exact=True)
            if not isinstance(symbol.node, ast.Module):
                return _instance(self._classes.annotated(symbol.node.returns, symbol.module))
        if isinstance(call.func, ast.Attribute):
            if is_self(call.func.value) and scope.owner is not None:
                for node in scope.owner.body:
                    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == call.func.attr:
                        return self.annotated(node.returns)
            owner = self.type_of(call.func.value, scope)
            method = self._classes.method(owner.symbol, call.func.attr) if owner else None
            if isinstance(method, Symbol) and isinstance(method.node, ast.FunctionDef):
                return _instance(self._classes.annotated(method.node.returns, method.module))
        return None

    def annotated(self, annotation: ast.expr | None) -> Instance | None:
        """What an annotation in the caller's own code means."""
        bare = bare_annotation(annotation)
        symbol = self.symbol(bare) if bare is not None else None
        if bare is None or symbol is None or not isinstance(symbol.node, ast.ClassDef):
            return None
        return Instance(symbol, self.dotted(bare) or symbol.name)


def is_self(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Name) and expression.id == "self"


def _instance(symbol: Symbol | None) -> Instance | None:
    return Instance(symbol, f"{symbol.module.name}.{symbol.name}") if symbol else None
