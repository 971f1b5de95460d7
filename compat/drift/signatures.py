"""What a function or a class takes, and whether a call of it fits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from compat.drift.classes import Classes
from compat.drift.library import Function, Symbol

FIELD_CLASSES = ("dataclass", "config", "pydantic_dataclass", "attrs", "define")
"""Decorators that make `__init__` from the annotated fields; `config` is vLLM's own."""
FIELD_BASES = ("Struct", "NamedTuple", "BaseModel")


@dataclass(frozen=True)
class Parameter:
    name: str
    default: str | None = None
    """Source of the default; None when it is required."""
    keyword_only: bool = False
    positional_only: bool = False


@dataclass(frozen=True)
class Signature:
    """Without `self`."""

    parameters: tuple[Parameter, ...]
    more_positional: bool = False
    more_keywords: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.parameters)

    def get(self, name: str) -> Parameter | None:
        return next((p for p in self.parameters if p.name == name), None)


@dataclass(frozen=True)
class Misfit:
    """One way in which a call does not fit: `kind` as in `compat.drift.finding`."""

    kind: str
    name: str

    def told(self, label: str) -> str:
        """As the message of a finding about a call of `label`."""
        return _SENTENCES[self.kind].format(label=label, name=self.name)


_SENTENCES = {
    "missing-argument": "calls {label} without {name!r}, which it requires",
    "unknown-argument": "passes {name!r} to {label}, which has no such parameter",
    "too-many-arguments": "passes {name} positional arguments to {label}, more than it takes",
}


def of_function(node: Function, bound: bool) -> Signature:
    """The signature of a function; `bound` leaves its first parameter out."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    only = len(arguments.posonlyargs)
    padding: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    defaults: list[ast.expr | None] = [*padding, *arguments.defaults]
    found = [
        Parameter(a.arg, None if d is None else ast.unparse(d), positional_only=i < only)
        for i, (a, d) in enumerate(zip(positional, defaults, strict=True))
    ]
    found = found[1:] if bound else found
    found += [
        Parameter(a.arg, None if d is None else ast.unparse(d), keyword_only=True)
        for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return Signature(tuple(found), arguments.vararg is not None, arguments.kwarg is not None)


def of_class(symbol: Symbol, classes: Classes) -> Signature | None:
    """What building an instance takes: `__init__`, or the fields of a dataclass or struct. None when unknown."""
    chain = classes.order(symbol)
    fields: dict[str, Parameter] = {}
    has_fields = False
    for item in reversed(chain):
        if isinstance(item, str):
            has_fields = has_fields or item.split(".")[-1] in FIELD_BASES
            continue
        assert isinstance(item.node, ast.ClassDef)
        decorated = any(_decorator(d) in FIELD_CLASSES for d in item.node.decorator_list)
        has_fields = has_fields or decorated
        if has_fields:
            fields.update((p.name, p) for p in _fields(item.node))
    for item in chain:
        if isinstance(item, str):
            continue
        assert isinstance(item.node, ast.ClassDef)
        own = [n for n in item.node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        if own:
            return of_function(own[-1], bound=True)
        if any(_decorator(d) in FIELD_CLASSES for d in item.node.decorator_list):
            break
    outside = [item for item in chain if isinstance(item, str) and item.split(".")[-1] in FIELD_BASES]
    open_bases = [item for item in chain if isinstance(item, str) and item not in outside]
    if not has_fields or any(b not in ("ABC", "Protocol", "Generic", "object", "dict") for b in open_bases):
        return None
    return Signature(tuple(fields.values()))


def misfits(call: ast.Call, signature: Signature) -> Iterator[Misfit]:
    """Nothing when the call unpacks arguments that only run time knows."""
    given = {k.arg for k in call.keywords}
    if None in given or any(isinstance(a, ast.Starred) for a in call.args):
        return
    positional = [p for p in signature.parameters if not p.keyword_only]
    if len(call.args) > len(positional) and not signature.more_positional:
        yield Misfit("too-many-arguments", str(len(call.args)))
    by_position = {p.name for p in positional[: len(call.args)]}
    accepted = {p.name for p in signature.parameters if not p.positional_only}
    if not signature.more_keywords:
        for name in sorted(given - accepted - {None}, key=str):
            yield Misfit("unknown-argument", str(name))
    for parameter in signature.parameters:
        if parameter.default is None and parameter.name not in by_position | (given & accepted):
            yield Misfit("missing-argument", parameter.name)


def omitted(call: ast.Call, signature: Signature) -> tuple[Parameter, ...]:
    """Parameters that the call leaves at their defaults; () when it unpacks arguments."""
    given = {k.arg for k in call.keywords}
    if None in given or any(isinstance(a, ast.Starred) for a in call.args):
        return ()
    positional = [p for p in signature.parameters if not p.keyword_only]
    given |= {p.name for p in positional[: len(call.args)]}
    return tuple(p for p in signature.parameters if p.default is not None and p.name not in given)


def plain_default(text: str | None) -> str | None:
    """The value that a default comes to, `field(default=X)` and `Field(default=X, gt=0)` being X."""
    if text is None:
        return None
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return text
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("field", "Field"):
        for keyword in node.keywords:
            if keyword.arg in ("default", "default_factory"):
                return ast.unparse(keyword.value) + ("()" if keyword.arg == "default_factory" else "")
        return ast.unparse(node.args[0]) if node.args else None
    return text


def _fields(node: ast.ClassDef) -> Iterator[Parameter]:
    keyword_only = any("kw_only=True" in ast.unparse(d) for d in node.decorator_list)
    for child in node.body:
        if not isinstance(child, ast.AnnAssign) or not isinstance(child.target, ast.Name):
            continue
        annotation = ast.unparse(child.annotation)
        if annotation.split(".")[-1] == "KW_ONLY":
            keyword_only = True
            continue
        if "ClassVar" in annotation:
            continue
        text = ast.unparse(child.value) if child.value is not None else None
        if text is not None and "init=False" in text:
            continue
        default = plain_default(text)
        yield Parameter(child.target.id, None if default == "..." else default, keyword_only)


def _decorator(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).split(".")[-1]
