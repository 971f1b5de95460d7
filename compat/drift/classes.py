"""Classes of a library: the order of their bases, their methods, attributes and the types of their fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compat.drift.library import Function, Library, Module, Symbol, Unknown

# fmt: off
TORCH_MODULE = frozenset({
    "forward", "parameters", "named_parameters", "buffers", "named_buffers", "children", "named_children",
    "modules", "named_modules", "apply", "to", "cuda", "cpu", "train", "eval", "training", "register_buffer",
    "register_parameter", "register_module", "add_module", "get_submodule", "get_parameter", "get_buffer",
    "state_dict", "load_state_dict", "requires_grad_", "zero_grad", "half", "float", "double", "bfloat16", "type",
    "register_forward_hook", "register_forward_pre_hook",
})
# fmt: on
"""What every `torch.nn.Module` has."""
_BUILT_IN = (object, str, int, dict, list, tuple, Exception, ValueError, RuntimeError)
OUTSIDE: dict[str, frozenset[str]] = {
    **{built_in.__name__: frozenset(dir(built_in)) for built_in in _BUILT_IN},
    **{name: frozenset[str]() for name in ("ABC", "Protocol", "Generic", "Struct")},
    **{name: frozenset({*dir(str), *dir(int), "name", "value"}) for name in ("Enum", "IntEnum", "StrEnum")},
    "NamedTuple": frozenset({*dir(tuple), "_asdict", "_replace", "_fields"}),
    "Module": TORCH_MODULE,
}
"""Base outside the library, without its package → the attributes that it brings. What any other brings is not known."""


class Classes:
    """Questions about the classes of one library. Bases that lead outside of it make an answer open."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._attributes: dict[Symbol, tuple[frozenset[str], bool]] = {}
        self._own: dict[Symbol, tuple[frozenset[str], bool]] = {}

    def order(self, symbol: Symbol) -> list[Symbol | str]:
        """The class and its bases, depth first; a text for a base whose source is not in the library."""
        seen: list[Symbol | str] = []
        self._walk(symbol, seen)
        return seen

    def _walk(self, symbol: Symbol, seen: list[Symbol | str]) -> None:
        if symbol in seen:
            return
        seen.append(symbol)
        assert isinstance(symbol.node, ast.ClassDef)
        for base in symbol.node.bases:
            found = self.named(base, symbol.module)
            if isinstance(found, Symbol) and isinstance(found.node, ast.ClassDef):
                self._walk(found, seen)
            else:
                seen.append(ast.unparse(base).split("[")[0])

    def named(self, expression: ast.expr, module: Module) -> Symbol | Unknown | None:
        """What a name or a dotted name means inside a module of the library."""
        if isinstance(expression, ast.Subscript):
            return self.named(expression.value, module)
        if isinstance(expression, ast.Name):
            return self._library.resolve(module.name, expression.id)
        if isinstance(expression, ast.Attribute):
            owner = self.named(expression.value, module)
            if isinstance(owner, Symbol) and isinstance(owner.node, ast.Module):
                return self._library.resolve(owner.module.name, expression.attr)
        return Unknown()

    def method(self, symbol: Symbol, name: str) -> Symbol | Unknown | None:
        """The method as a symbol; None when no class in the order has it and all of them are known."""
        is_open = False
        for item in self.order(symbol):
            if isinstance(item, str):
                is_open = is_open or _short(item) not in OUTSIDE
                continue
            for node in reversed(getattr(item.node, "body", [])):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                    return Symbol(node, item.module)
        if is_open or name in self.attributes(symbol)[0]:
            return Unknown()
        return None

    def attributes(self, symbol: Symbol) -> tuple[frozenset[str], bool]:
        """Every attribute that the sources give an instance, and whether there may be more."""
        if symbol not in self._attributes:
            self._attributes[symbol] = self._find_attributes(symbol)
        return self._attributes[symbol]

    def _find_attributes(self, symbol: Symbol) -> tuple[frozenset[str], bool]:
        names: set[str] = set()
        is_open = False
        for item in self.order(symbol):
            if isinstance(item, str):
                names |= OUTSIDE.get(_short(item), frozenset())
                is_open = is_open or _short(item) not in OUTSIDE
                continue
            if item not in self._own:
                self._own[item] = _own_attributes(item.node)
            names |= self._own[item][0]
            is_open = is_open or self._own[item][1]
        return frozenset(names), is_open

    def field_type(self, symbol: Symbol, name: str) -> Symbol | None:
        """The class of an annotated field, property or attribute of an instance; None when it cannot be told."""
        for item in self.order(symbol):
            if isinstance(item, str):
                continue
            for node in ast.walk(item.node):
                annotation: ast.expr | None = None
                if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) in (name, f"self.{name}"):
                    annotation = node.annotation
                elif isinstance(node, ast.FunctionDef) and node.name == name and _is_property(node):
                    annotation = node.returns
                if annotation is not None:
                    return self.annotated(annotation, item.module)
        return None

    def made(self, symbol: Symbol, name: str) -> Symbol | None:
        """The class that an instance's attribute is built of, `self.name = Class(…)`; None when it cannot be told."""
        for item in self.order(symbol):
            if isinstance(item, str):
                continue
            for node in ast.walk(item.node):
                if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                    continue
                if any(ast.unparse(target) == f"self.{name}" for target in node.targets):
                    found = self.named(node.value.func, item.module)
                    return found if isinstance(found, Symbol) and isinstance(found.node, ast.ClassDef) else None
        return None

    def annotated(self, annotation: ast.expr | None, module: Module) -> Symbol | None:
        """The class that an annotation of the library means, `Optional[X]` and `X | None` being X."""
        bare = bare_annotation(annotation)
        found = self.named(bare, module) if bare is not None else None
        return found if isinstance(found, Symbol) and isinstance(found.node, ast.ClassDef) else None


def _own_attributes(node: ast.AST) -> tuple[frozenset[str], bool]:
    """What one class itself gives its instances, and whether it may give more."""
    assert isinstance(node, ast.ClassDef)
    names = set(_class_level(node))
    is_open = any(k.arg == "metaclass" and "ABCMeta" not in ast.unparse(k) for k in node.keywords)
    for inner in ast.walk(node):
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(inner.name)
            is_open = is_open or inner.name in ("__getattr__", "__getattribute__")
        elif isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            if isinstance(inner.value, ast.Name) and inner.value.id in ("self", "cls"):
                names.add(inner.attr)
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "setattr":
            is_open = is_open or not inner.args or ast.unparse(inner.args[0]) == "self"
    return frozenset(names), is_open


def bare_annotation(annotation: ast.expr | None) -> ast.expr | None:
    """The annotation without quotes and without its `None` arm; None when it is a union or a container."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            return bare_annotation(ast.parse(annotation.value, mode="eval").body)
        except SyntaxError:
            return None
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        arms = [a for a in (annotation.left, annotation.right) if ast.unparse(a) != "None"]
        return bare_annotation(arms[0]) if len(arms) == 1 else None
    if isinstance(annotation, ast.Subscript):
        if ast.unparse(annotation.value).split(".")[-1] in ("Optional", "SkipValidation", "Annotated", "InitVar"):
            inner = annotation.slice
            return bare_annotation(inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner)
        return None
    return annotation if isinstance(annotation, (ast.Name, ast.Attribute)) else None


def _class_level(node: ast.ClassDef) -> Iterator[str]:
    for child in node.body:
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            yield child.target.id
        elif isinstance(child, ast.Assign):
            for target in child.targets:
                yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def _short(base: str) -> str:
    return base.split(".")[-1]


def _is_property(node: Function) -> bool:
    return any(ast.unparse(d).split(".")[-1] in ("property", "cached_property") for d in node.decorator_list)
