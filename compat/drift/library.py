"""A lazy index of one installed package by syntax tree: modules, what their names mean, re-exports followed."""

from __future__ import annotations

import ast
import csv
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Unreadable(Exception):
    """There is nothing to probe; its text is one sentence for the operator."""


class Unknown:
    """What a name means cannot be told from the sources: nothing is ever reported about it."""

    def __bool__(self) -> bool:
        return False


UNKNOWN = Unknown()


@dataclass(frozen=True, eq=False)
class Module:
    """One parsed source file."""

    name: str
    """Dotted, `vllm.config.cache`."""
    file: str
    """Relative to the folder that holds the package."""
    tree: ast.Module
    is_package: bool

    def absolute(self, node: ast.ImportFrom) -> str:
        """The dotted module that a `from … import` names, relative ones resolved."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        base = parts[: len(parts) - node.level + 1]
        return ".".join([*base, *([node.module] if node.module else [])])


@dataclass(frozen=True, eq=False)
class Symbol:
    """A module, class or function of the package, and the module that defines it."""

    node: ast.Module | ast.ClassDef | Function
    module: Module

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbol) and other.node is self.node

    def __hash__(self) -> int:
        return hash(self.node)

    @property
    def name(self) -> str:
        return self.module.name if isinstance(self.node, ast.Module) else self.node.name

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.module.file}:{getattr(self.node, 'lineno', 1)}"


Found = Symbol | Unknown | None
"""None: the sources say that there is no such name."""


class Library:
    """The package `name` as it lies in the folder `root`. Raises Unreadable when it is not there."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.name = name
        self.unreadable: dict[str, str] = {}
        """File → why it could not be read. Its names are Unknown."""
        self._modules: dict[str, Module | Unknown | None] = {}
        self._names: dict[str, dict[str, list[ast.AST]]] = {}
        self._resolved: dict[tuple[str, str], Found] = {}
        if not (root / name).is_dir():
            raise Unreadable(f"There is no package {name} in {root}.")
        self._installed = frozenset(_recorded(root, name))

    def module(self, dotted: str) -> Module | Unknown | None:
        """None when there is no such module, Unknown when there is one that cannot be read."""
        if dotted not in self._modules:
            self._modules[dotted] = self._read(dotted)
        return self._modules[dotted]

    def _read(self, dotted: str) -> Module | Unknown | None:
        stem = self.root.joinpath(*dotted.split("."))
        for path in (stem / "__init__.py", stem.with_suffix(".py")):
            file = path.relative_to(self.root).as_posix()
            try:
                text = path.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                if file in self._installed:
                    self.unreadable[file] = "is recorded as installed but is not there"
                    return UNKNOWN
                continue
            except OSError as error:
                self.unreadable[file] = f"cannot be read: {error.strerror}"
                return UNKNOWN
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # a later Python's word on an earlier one's escapes
                    return Module(dotted, file, ast.parse(text), path.name == "__init__.py")
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                line = getattr(error, "lineno", None)
                where = f"line {line}: " if line else ""
                self.unreadable[file] = f"cannot be parsed by this Python: {where}{getattr(error, 'msg', error)}"
                return UNKNOWN
        if stem.is_dir() or any(stem.parent.glob(f"{stem.name}.*.so")):
            return UNKNOWN  # a namespace package, or compiled
        prefix = stem.relative_to(self.root).as_posix()
        compiled = any(file.startswith(f"{prefix}.") and file.endswith(".so") for file in self._installed)
        return UNKNOWN if compiled else None

    def find(self, dotted: str) -> Found:
        """The symbol of a whole dotted name, `vllm.config.CacheConfig`."""
        module, _, name = dotted.rpartition(".")
        return self.resolve(module, name)

    def resolve(self, module: str, name: str) -> Found:
        """What `from module import name` would give."""
        key = (module, name)
        if key not in self._resolved:
            self._resolved[key] = UNKNOWN  # met again while it is being resolved: a circle
            self._resolved[key] = self._resolve(module, name)
        return self._resolved[key]

    def _resolve(self, dotted: str, name: str) -> Found:
        module = self.module(dotted)
        if not isinstance(module, Module):
            return module
        bindings = self.names(module)
        bound = bindings.get(name)
        if bound:
            return self._bound(module, name, bound)
        submodule = self.module(f"{dotted}.{name}")
        if submodule is not None:
            return Symbol(submodule.tree, submodule) if isinstance(submodule, Module) else UNKNOWN
        for star in bindings.get("*", ()):
            assert isinstance(star, ast.ImportFrom)
            source = module.absolute(star)
            if source.split(".")[0] != self.name:
                return UNKNOWN
            found = self.resolve(source, name)
            if found is not None:
                return found
        return UNKNOWN if "__getattr__" in bindings else None

    def _bound(self, module: Module, name: str, nodes: list[ast.AST]) -> Found:
        defined = [n for n in nodes if isinstance(n, (ast.ClassDef, *_FUNCTIONS)) and not _is_overload(n)]
        if len(defined) == 1 and len(nodes) - len(defined) == sum(map(_is_overload, nodes)):
            return Symbol(defined[0], module)
        if len(nodes) > 1:
            return UNKNOWN  # it depends on a condition
        node = nodes[0]
        if isinstance(node, ast.ImportFrom):
            source = module.absolute(node)
            original = next(a.name for a in node.names if (a.asname or a.name) == name)
            return self.resolve(source, original) if source.split(".")[0] == self.name else UNKNOWN
        return UNKNOWN

    def names(self, module: Module) -> dict[str, list[ast.AST]]:
        """Name → what binds it at the module's top level, conditions and tries included; `*` for star imports."""
        if module.name not in self._names:
            table: dict[str, list[ast.AST]] = {}
            for node in _top_level(module.tree.body):
                for name in _binds(node):
                    table.setdefault(name, []).append(node)
            self._names[module.name] = table
        return self._names[module.name]


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
            for part in ("body", "orelse", "finalbody"):
                yield from _top_level(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _top_level(handler.body)


def _binds(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.ClassDef, *_FUNCTIONS)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or (alias.name if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0])
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def _is_overload(node: ast.AST) -> bool:
    return any(ast.unparse(d).split(".")[-1] == "overload" for d in getattr(node, "decorator_list", ()))


def _recorded(root: Path, package: str) -> Iterator[str]:
    """Files of the package that the metadata of some distribution lists as installed."""
    for record in sorted(root.glob("*.dist-info/RECORD")):
        try:
            with record.open(encoding="utf-8", errors="replace", newline="") as file:
                yield from (row[0] for row in csv.reader(file) if row and row[0].startswith(f"{package}/"))
        except (OSError, csv.Error):
            continue
