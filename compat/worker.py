"""The worker's side: a vLLM general plugin (see `compat/plugin`) that waits for speculators' worker extension.

vLLM loads general plugins in every process it starts, helpers that only inspect a model class included. So the
plugin does no work by itself: it hooks the import of the extension, which only a real worker ever performs.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from compat import record
from compat.activate import activate
from compat.replace import WORKER
from compat.switches import VARIABLE, parse


def plugin() -> None:
    """Entry point in the group `vllm.general_plugins`."""
    if VARIABLE not in os.environ:  # a vLLM that is no stage of ours
        return
    if WORKER in sys.modules:
        _activate()
    elif not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport(WORKER, _activate))


def _activate() -> None:
    for applied in activate("worker", parse(os.environ[VARIABLE])):
        record.patch(applied, "worker")


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls back right after one module has been executed, once."""

    def __init__(self, name: str, callback: Callable[[], None]) -> None:
        self._name = name
        self._callback = callback

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec and spec.loader:
            spec.loader = _CallingLoader(spec.loader, self._callback)
        return spec


class _CallingLoader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, callback: Callable[[], None]) -> None:
        self._loader = loader
        self._callback = callback

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._callback()
