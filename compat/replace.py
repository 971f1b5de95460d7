"""How a patch puts its code in another's place: once, in any order, only over the code it was written for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from compat import source

GENERATOR = "speculators.data_generation.vllm_hidden_states_generator"
WORKER = "speculators.data_generation.custom_worker"

_MARK = "__eyas_patches__"


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


def default_arguments(module: ModuleType, name: str, add: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    """Wraps a callable that a module calls with keywords: `add(given)` returns what to pass beside them."""
    wrapped = getattr(module, name)

    def call(*args: Any, **given: Any) -> Any:
        return wrapped(*args, **{**add(given), **given})

    setattr(module, name, call)


def subclass(module: ModuleType, name: str, members: Callable[[Any], Mapping[str, Any]]) -> None:
    """Puts a subclass in a class's place. `members(base)` overrides methods and calls `base.method(self, …)`.

    Each patch extends whatever class stands there, so several patches of one class stack in any order.
    """
    base = getattr(module, name)
    setattr(module, name, type(base.__name__, (base,), {"__module__": base.__module__, **members(base)}))


def generator_module() -> Any:
    return importlib.import_module(GENERATOR)


def worker_module() -> Any:
    return importlib.import_module(WORKER)
