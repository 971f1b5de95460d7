"""What the caller does with the callee: its imports, calls and accesses of attributes, with the types inferred."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from compat.drift import guards
from compat.drift.classes import Classes
from compat.drift.finding import Place
from compat.drift.guards import ANY_IMPORT, ANY_USE
from compat.drift.infer import Instance, Names, Scope, is_self
from compat.drift.library import Library, Module, Symbol
from compat.drift.signatures import Signature, of_class, of_function

Result = Literal["unused", "used", "taken apart"]
# fmt: off
KEEP_SIGNATURE = frozenset({
    "staticmethod", "classmethod", "abstractmethod", "override", "final", "cache", "lru_cache", "contextmanager",
    "asynccontextmanager", "instrument", "inference_mode", "no_grad", "deprecated",
})
# fmt: on
"""Decorators under which a function still takes what it says."""


@dataclass(frozen=True, eq=False)
class Import:
    place: Place
    module: str
    name: str
    """'' for `import module`."""


@dataclass(frozen=True, eq=False)
class Call:
    place: Place
    node: ast.Call
    key: str
    """The callee's dotted name as the caller knows it, `vllm.v1.request.Request`."""
    label: str
    """The short name that findings use, `Request.__init__`, `CacheConfig` for a class of fields."""
    target: Symbol
    signature: Signature | None
    owner: Instance | None
    result: Result
    guarded: bool


@dataclass(frozen=True, eq=False)
class Access:
    """`object.name`, where the object's class is known."""

    place: Place
    owner: Instance
    name: str
    called: bool
    stored: bool
    guarded: bool


@dataclass(frozen=True, eq=False)
class Caller:
    """A package that uses the callee. Its modules are those that mention the callee."""

    name: str
    modules: tuple[Module, ...]
    imports: tuple[Import, ...]
    calls: tuple[Call, ...]
    accesses: tuple[Access, ...]
    names: dict[Module, Names]
    """Module → what its imported names mean."""


def read_caller(package: Library, library: Library, classes: Classes) -> Caller:
    """Reads the modules of `package` that import `library`. Unreadable ones are noted in `package.unreadable`."""
    modules = tuple(_modules(package, library.name))
    imports: list[Import] = []
    calls: list[Call] = []
    accesses: list[Access] = []
    names: dict[Module, Names] = {}
    for module in modules:
        names[module] = Names(module, library, classes)
        reader = _Reader(module, names[module], library, classes)
        reader.visit(module.tree)  # learns the types of attributes that later methods assign
        reader.start_over()
        reader.visit(module.tree)
        imports += reader.imports
        calls += reader.calls
        accesses += reader.accesses
    return Caller(package.name, modules, tuple(imports), tuple(calls), tuple(accesses), names)


def _modules(package: Library, callee: str) -> Iterator[Module]:
    for path in sorted((package.root / package.name).rglob("*.py")):
        try:
            if callee.encode() not in path.read_bytes():
                continue
        except OSError:
            pass  # `module` says what is wrong with it
        parts = path.relative_to(package.root).with_suffix("").parts
        module = package.module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        if isinstance(module, Module) and any(_imports(node, module, callee) for node in ast.walk(module.tree)):
            yield module


def _imports(node: ast.AST, module: Module, callee: str) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] == callee for alias in node.names)
    return isinstance(node, ast.ImportFrom) and module.absolute(node).split(".")[0] == callee


class _Reader(ast.NodeVisitor):
    def __init__(self, module: Module, names: Names, library: Library, classes: Classes) -> None:
        self._module = module
        self._names = names
        self._library = library
        self._classes = classes
        self._parents = {c: p for p in ast.walk(module.tree) for c in ast.iter_child_nodes(p)}
        self._attributes: dict[ast.ClassDef, dict[str, Instance | None]] = {}
        self._scope = Scope()
        self._path: list[str] = []
        self._guards: list[frozenset[str]] = []
        self.start_over()

    def start_over(self) -> None:
        """Forgets the uses, keeps the types."""
        self.imports: list[Import] = []
        self.calls: list[Call] = []
        self.accesses: list[Access] = []

    def _place(self, node: ast.AST) -> Place:
        return Place(self._module.file, getattr(node, "lineno", 1), ".".join(self._path))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] == self._library.name and not self._is_guarded(ANY_IMPORT):
                self.imports.append(Import(self._place(node), alias.name, ""))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = self._module.absolute(node)
        if source.split(".")[0] == self._library.name and not self._is_guarded(ANY_IMPORT):
            self.imports += [Import(self._place(node), source, alias.name) for alias in node.names]

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer = self._scope
        self._scope = Scope(node, self._attributes.setdefault(node, {}))
        self._path.append(node.name)
        self.generic_visit(node)
        self._path.pop()
        self._scope = outer

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer = self._scope
        self._scope = Scope(outer.owner, outer.attributes, dict(outer.locals))
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            self._scope.locals[argument.arg] = self._names.annotated(argument.annotation)
        self._path.append(node.name)
        self.generic_visit(node)
        self._path.pop()
        self._scope = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            self._learn(target, node.value, self._names.type_of(node.value, self._scope))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        found = self._names.type_of(node.value, self._scope) if node.value is not None else None
        self._learn(node.target, node.value, found or self._names.annotated(node.annotation))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.generic_visit(node)
        self._learn(node.target, node.value, self._names.type_of(node.value, self._scope))

    def _learn(self, target: ast.expr, value: ast.expr | None, found: Instance | None) -> None:
        if isinstance(target, ast.Name):
            self._scope.locals[target.id] = found
        elif isinstance(target, ast.Attribute) and is_self(target.value) and self._scope.owner is not None:
            if isinstance(value, ast.Constant) and value.value is None:
                return
            known = self._scope.attributes.setdefault(target.attr, found)
            if known is not None and (found is None or known.symbol is not found.symbol):
                self._scope.attributes[target.attr] = None

    def visit_Try(self, node: ast.Try) -> None:
        self._guards.append(guards.of_try(node))
        for child in node.body:
            self.visit(child)
        self._guards.pop()
        for other in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(other)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._guards.append(guards.of_if(node))
        for child in (*node.body, *node.orelse):
            self.visit(child)
        self._guards.pop()

    def _is_guarded(self, *what: str) -> bool:
        return any(one in words for words in self._guards for one in what)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        owner = self._names.type_of(node.value, self._scope) or self._class_named(node.value)
        if owner is None:
            return
        parent = self._parents.get(node)
        called = isinstance(parent, ast.Call) and parent.func is node
        stored = isinstance(node.ctx, ast.Store)
        access = Access(self._place(node), owner, node.attr, called, stored, self._is_guarded(node.attr, ANY_USE))
        self.accesses.append(access)

    def _class_named(self, node: ast.expr) -> Instance | None:
        """The class itself, as in `RequestStatus.FINISHED_ABORTED`."""
        symbol = self._names.symbol(node)
        key = self._names.dotted(node)
        return Instance(symbol, key, exact=True) if symbol and key and isinstance(symbol.node, ast.ClassDef) else None

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        symbol = self._names.symbol(node.func)
        if symbol is not None and isinstance(symbol.node, ast.ClassDef):
            made = self._classes.method(symbol, "__init__")
            label = f"{symbol.name}.__init__" if isinstance(made, Symbol) else symbol.name
            self._add(node, self._names.dotted(node.func) or "", label, symbol, of_class(symbol, self._classes), None)
        elif symbol is not None and not isinstance(symbol.node, ast.Module):
            signature = _unless_wrapped(symbol, bound=False)
            self._add(node, self._names.dotted(node.func) or "", symbol.name, symbol, signature, None)
        elif isinstance(node.func, ast.Attribute):
            owner = self._names.type_of(node.func.value, self._scope)
            method = self._classes.method(owner.symbol, node.func.attr) if owner else None
            if owner is not None and isinstance(method, Symbol):
                label = f"{owner.symbol.name}.{node.func.attr}"
                signature = _unless_wrapped(method, bound=True)
                self._add(node, f"{owner.key}.{node.func.attr}", label, method, signature, owner)

    def _add(
        self,
        node: ast.Call,
        key: str,
        label: str,
        target: Symbol,
        signature: Signature | None,
        owner: Instance | None,
    ) -> None:
        guarded = self._is_guarded(ANY_USE)
        self.calls.append(
            Call(self._place(node), node, key, label, target, signature, owner, self._use_of(node), guarded)
        )

    def _use_of(self, node: ast.Call) -> Result:
        parent = self._parents.get(node)
        if isinstance(parent, ast.Expr):
            return "unused"
        if isinstance(parent, (ast.Subscript, ast.Attribute)) and parent.value is node:
            return "taken apart"
        if not isinstance(parent, ast.Assign):
            return "used"
        if any(isinstance(target, ast.Tuple) for target in parent.targets):
            return "taken apart"
        names = {ast.unparse(target) for target in parent.targets}
        function: ast.AST = node
        while function in self._parents and not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = self._parents[function]
        apart = any(isinstance(n, ast.Subscript) and ast.unparse(n.value) in names for n in ast.walk(function))
        return "taken apart" if apart else "used"


def _unless_wrapped(symbol: Symbol, bound: bool) -> Signature | None:
    """The signature of a function; None when a decorator may have changed it."""
    node = symbol.node
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    decorators = {ast.unparse(d.func if isinstance(d, ast.Call) else d).split(".")[-1] for d in node.decorator_list}
    if decorators - KEEP_SIGNATURE:
        return None
    return of_function(node, bound and "staticmethod" not in decorators)
