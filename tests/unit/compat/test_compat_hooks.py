"""Actions that wait for a module: after its code has run, once, whatever the order, and never in the import's way."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.hooks import after_import


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "hooked"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text("from hooked.two import value\n")
    (folder / "two.py").write_text("value = 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = list(sys.meta_path)
    yield folder
    sys.meta_path[:] = finders
    for name in [name for name in sys.modules if name.split(".")[0] == "hooked"]:
        del sys.modules[name]


def test_an_action_waits_for_the_import_and_then_runs_once(package: Path) -> None:
    seen: list[int] = []
    after_import("hooked.two", lambda: seen.append(sys.modules["hooked.two"].value))
    assert seen == []
    importlib.import_module("hooked.one")
    importlib.reload(sys.modules["hooked.two"])
    assert seen == [2]


def test_an_action_for_an_imported_module_runs_at_once(package: Path) -> None:
    importlib.import_module("hooked.two")
    seen: list[str] = []
    after_import("hooked.two", lambda: seen.append("now"))
    assert seen == ["now"]


def test_the_inner_module_s_action_comes_first_whatever_the_order_of_asking(package: Path) -> None:
    seen: list[str] = []
    after_import("hooked.one", lambda: seen.append("one"))
    after_import("hooked.two", lambda: seen.append("two, first"))
    after_import("hooked.two", lambda: seen.append("two, second"))
    importlib.import_module("hooked.one")
    assert seen == ["two, first", "two, second", "one"]


def test_a_module_that_fails_keeps_its_action_for_the_next_try(package: Path) -> None:
    seen: list[str] = []
    (package / "two.py").write_text("raise OSError('not yet')\n")
    after_import("hooked.two", lambda: seen.append("two"))
    with pytest.raises(OSError, match="not yet"):
        importlib.import_module("hooked.two")
    assert seen == []
    (package / "two.py").write_text("value = 'longer than before'\n")
    importlib.import_module("hooked.two")
    assert seen == ["two"]


def test_a_module_that_does_not_exist_is_missing_as_ever(package: Path) -> None:
    after_import("hooked.three", lambda: None)
    with pytest.raises(ModuleNotFoundError, match=r"hooked\.three"):
        importlib.import_module("hooked.three")
