"""Functions that the caller binds in the place of the callee's methods, against every class they may be bound to."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from compat.drift.architectures import decoder_modules
from compat.drift.context import Context
from compat.drift.finding import Finding, Place, Severity
from compat.drift.library import Symbol
from compat.drift.lookalikes import Replacement, find_replacements, look_alikes, loop_calls
from compat.drift.signatures import misfits, of_function

LAYERS = "layers"
SHARED = 2
"""An interface is what several classes take: a parameter of one class alone concerns only whoever runs that class."""


def check(context: Context) -> Iterator[Finding]:
    for module in context.caller.modules:
        for replacement in find_replacements(module):
            is_known = bool(context.architecture)
            alike = look_alikes(replacement, context.library, context.classes, any_model=is_known)
            if is_known:
                alike = _of_architecture(context, alike) or alike
            yield from _missing(context, replacement, alike)
            yield from _narrower(context, replacement, alike)
            yield from _layers(context, replacement, alike)


def _missing(context: Context, replacement: Replacement, alike: list[Symbol]) -> Iterator[Finding]:
    lacking: dict[str, list[Symbol]] = {}
    for symbol in alike:
        for name in replacement.used - context.classes.attributes(symbol)[0]:
            lacking.setdefault(name, []).append(symbol)
    for name, symbols in sorted(lacking.items()):
        if 2 * len(symbols) <= len(alike):  # a class without it is then rather no class that is meant
            continue
        node = next(n for n in ast.walk(replacement.function) if isinstance(n, ast.Attribute) and n.attr == name)
        message = (
            f"uses {name} of the object it is bound to, which {len(symbols)} of the {len(alike)} model classes that "
            f"fit do not have ({_some(symbols)})"
        )
        place = _place(replacement, node)
        yield Finding("fails", "missing-attribute", "", name, message, place, symbols[0].place)


def _narrower(context: Context, replacement: Replacement, alike: list[Symbol]) -> Iterator[Finding]:
    wider: dict[str, list[Symbol]] = {}
    for symbol in alike:
        original = context.classes.method(symbol, replacement.method)
        if isinstance(original, Symbol) and isinstance(original.node, ast.FunctionDef):
            for parameter in of_function(original.node, bound=True).parameters:
                if parameter.name not in replacement.parameters:
                    wider.setdefault(parameter.name, []).append(symbol)
    swallows = replacement.function.args.kwarg is not None
    for name, symbols in sorted(wider.items()):
        if len(symbols) < _enough(context, alike):
            continue
        does = "silently drops" if swallows else "does not take"
        message = (
            f"replaces {replacement.method} and {does} {name!r}, which that of {len(symbols)} classes takes "
            f"({_some(symbols)})"
        )
        severity: Severity = "silent" if swallows else "may fail"
        place = _place(replacement, replacement.function)
        yield Finding(
            severity, "narrow-override", replacement.method, name, message, place, symbols[0].place, len(symbols)
        )


def _layers(context: Context, replacement: Replacement, alike: list[Symbol]) -> Iterator[Finding]:
    calls = list(loop_calls(replacement.function, LAYERS))
    if not calls:
        return
    rejecting: dict[tuple[str, str], list[Symbol]] = {}
    layers = {layer for symbol in alike for layer in _layer_classes(context, symbol)}
    for layer in sorted(layers, key=lambda s: s.place):
        forward = context.classes.method(layer, "forward")
        if isinstance(forward, Symbol) and isinstance(forward.node, ast.FunctionDef):
            for misfit in misfits(calls[0], of_function(forward.node, bound=True)):
                rejecting.setdefault((misfit.kind, misfit.name), []).append(layer)
    for (kind, name), symbols in sorted(rejecting.items()):
        if len(symbols) < _enough(context, layers):
            continue
        everywhere = len(symbols) == len(layers)
        message = (
            f"calls its layers in a way that {len(symbols)} of {len(layers)} decoder layers do not take "
            f"({kind.replace('-', ' ')} {name!r}: {_some(symbols)})"
        )
        rejected: Severity = "fails" if everywhere else "may fail"
        place = _place(replacement, calls[0])
        yield Finding(rejected, kind, "layer.forward", name, message, place, symbols[0].place, len(symbols))


def _enough(context: Context, among: Collection[Symbol]) -> int:
    """How many classes must agree for a finding."""
    return 1 if context.architecture else min(SHARED, len(among))


def _layer_classes(context: Context, model: Symbol) -> Iterator[Symbol]:
    """The decoder layers that a model's own code names."""
    for node in ast.walk(model.node):
        if isinstance(node, ast.Name) and node.id.endswith("DecoderLayer"):
            found = context.library.resolve(model.module.name, node.id)
            if isinstance(found, Symbol) and isinstance(found.node, ast.ClassDef):
                yield found


def _of_architecture(context: Context, alike: list[Symbol]) -> list[Symbol]:
    """Those of the target's own module, of the modules of the models inside it, or that its module names."""
    modules = decoder_modules(context)
    named = {n.id for module in modules for n in ast.walk(module.tree) if isinstance(n, ast.Name)}
    return [s for s in alike if s.module in modules or s.name in named]


def _place(replacement: Replacement, node: ast.AST) -> Place:
    return Place(replacement.module.file, getattr(node, "lineno", 1), replacement.function.name)


def _some(symbols: list[Symbol]) -> str:
    names = sorted({symbol.name for symbol in symbols})
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
