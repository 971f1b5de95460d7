"""How a patch puts its code in another's place: once, in any order, only over the code it was written for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from compat import source

GENERATOR = "speculators.data_generation.vllm_hidden_states_generator"
WORKER = "speculators.data_generation.custom_worker"

_MARK = "__eyas_patches__"
_ARGUMENTS = "__eyas_arguments__"


class Refused(Exception):
    """The installed code is not the code that the patch was written for."""


def expect(dotted: str, written_for: tuple[str, ...]) -> str:
    """The digest of the installed source of `dotted`. Raises Refused unless it is one of those."""
    try:
        code = source.find(site_of(dotted), dotted)
    except source.SourceError as error:
        raise Refused(f"{dotted} was not found: {error}") from None
    if code.digest not in written_for:
        raise Refused(f"{code.place} ({dotted}) is not the code that this patch was written for")
    return code.digest


def site_of(dotted: str) -> Path:
    """The site-packages folder that a package is installed in. Raises Refused."""
    name = dotted.split(".")[0]
    module = sys.modules.get(name)
    spec = module.__spec__ if module else importlib.util.find_spec(name)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    if not locations:
        raise Refused(f"the package {name} is not installed")
    return Path(locations[0]).parent


def once(module: ModuleType, patch: str) -> bool:
    """True the first time a patch comes to a module; the mark lives on the module, so a fresh import starts over."""
    done: set[str] = module.__dict__.setdefault(_MARK, set())
    if patch in done:
        return False
    done.add(patch)
    return True


def default_arguments(module: ModuleType, name: str, **add: Any) -> None:
    """Wraps a callable that a module calls, so that it gets these arguments where the caller does not name them."""
    wrapped = getattr(module, name)

    def call(*args: Any, **given: Any) -> Any:
        return wrapped(*args, **{**add, **given})

    call.__dict__[_ARGUMENTS] = _arguments(wrapped) | add.keys()
    setattr(module, name, call)


def drop_argument(module: ModuleType, name: str, argument: str) -> None:
    """Wraps a callable that a module calls, so that a keyword which it does not take any more never reaches it."""
    wrapped = getattr(module, name)

    def call(*args: Any, **given: Any) -> Any:
        given.pop(argument, None)
        return wrapped(*args, **given)

    call.__dict__[_ARGUMENTS] = _arguments(wrapped) | {argument}
    setattr(module, name, call)


def check_argument(module: ModuleType, name: str, argument: str) -> str:
    """A sentence that neither of the two above sees to that argument any more, or ''."""
    if argument in _arguments(getattr(module, name)):
        return ""
    return f"nothing sees to the argument {argument} of {name} in {module.__name__}: something else took its place"


def _arguments(call: Any) -> frozenset[str]:
    seen_to: frozenset[str] = getattr(call, "__dict__", {}).get(_ARGUMENTS, frozenset())
    return seen_to


def wrap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Puts `make(old)` in the place of a function of a module or a method of a class; several patches stack."""
    old = getattr(owner, name)
    new = make(old)
    new.__wrapped__ = old
    setattr(owner, name, new)


def check_wrap(owner: Any, name: str, patch: str) -> str:
    """A sentence that no function of that patch's module (its `__name__`) is in that place by `wrap`, or ''."""
    function = getattr(owner, name)
    while function is not None:
        if function.__module__ == patch:
            return ""
        function = getattr(function, "__wrapped__", None)
    return f"{owner.__name__}.{name} is not the patched one: something else took its place"


def subclass(module: ModuleType, name: str, members: Callable[[Any], Mapping[str, Any]]) -> None:
    """Puts a subclass in a class's place. `members(base)` overrides methods and calls `base.method(self, …)`.

    Each patch extends whatever class stands there, so several patches of one class stack in any order.
    """
    base = getattr(module, name)
    setattr(module, name, type(base.__name__, (base,), {"__module__": base.__module__, **members(base)}))


def check_override(owner: Any, method: str, patch: str) -> str:
    """A sentence that a class has not that method from the patch's module (its `__name__`) by `subclass`, or ''."""
    if any(getattr(vars(c).get(method), "__module__", "") == patch for c in owner.__mro__):
        return ""
    return f"{owner.__module__}.{owner.__name__}.{method} is not the patched one: something else took its place"


def text_model(model: Any) -> Any:
    """The part of a vLLM model whose `.model` is the decoder: itself, or what a wrapper keeps as `language_model`.

    Raises AttributeError where there is no decoder with layers.
    """
    while not hasattr(getattr(model, "model", None), "layers"):
        if hasattr(model, "layers"):  # Kimi-K2.5's wrapper of vLLM 0.15 keeps the bare decoder
            return SimpleNamespace(model=model)
        model = model.language_model
    return model


def generator_module() -> Any:
    return importlib.import_module(GENERATOR)


def worker_module() -> Any:
    return importlib.import_module(WORKER)
