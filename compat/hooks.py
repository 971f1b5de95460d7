"""Runs an action when a module has been imported: at once if it has been, by an import hook otherwise."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

Action = Callable[[], None]


def after_import(name: str, action: Action) -> None:
    """Calls `action` right after the module's own code has run; several actions of a module run in their order."""
    if name in sys.modules:
        action()
        return
    finder = next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    finder.waiting.setdefault(name, []).append(action)


class _Finder(importlib.abc.MetaPathFinder):
    """Lets the other finders find a module that somebody waits for, and wraps the loader that they give."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Action]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.waiting:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec and spec.loader:
            spec.loader = _Loader(spec.loader, lambda: self._run(fullname))
        return spec

    def _run(self, name: str) -> None:
        for action in self.waiting.pop(name, []):
            action()


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, executed: Action) -> None:
        self._loader = loader
        self._executed = executed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._executed()
