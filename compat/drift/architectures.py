"""From the name of an architecture to its class, through the callee's own registry of models."""

from __future__ import annotations

import ast

from compat.drift.context import Context
from compat.drift.library import Library, Module, Symbol

REGISTRY = "vllm.model_executor.models.registry"
MODELS = "vllm.model_executor.models"


def find_architecture(context: Context) -> Symbol | None:
    """The class of the target model; None when the registry does not have it or cannot be read."""
    return _class(context.library, context.architecture)


def decoder_modules(context: Context) -> frozenset[Module]:
    """The modules that may hold the target's decoder: its own, and those of the architectures that it names."""
    model = find_architecture(context)
    if model is None:
        return frozenset()
    texts = {n.value for n in ast.walk(model.module.tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    inner = (_class(context.library, text) for text in sorted(texts) if text.endswith("ForCausalLM"))
    return frozenset({model.module, *(symbol.module for symbol in inner if symbol)})


def _class(library: Library, architecture: str) -> Symbol | None:
    registry = library.module(REGISTRY)
    if not isinstance(registry, Module):
        return None
    for node in ast.walk(registry.tree):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == architecture and isinstance(value, ast.Tuple):
                parts = [e.value for e in value.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)]
                if len(parts) == 2:
                    found = library.resolve(f"{MODELS}.{parts[0]}", parts[1])
                    return found if isinstance(found, Symbol) and isinstance(found.node, ast.ClassDef) else None
    return None
