"""How patches take the place of code: once, in any order, and never over other code."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from compat import replace
from compat.replace import Refused, default_arguments, expect, once, subclass


def module() -> ModuleType:
    made = ModuleType("caller")

    class Executor:
        def run(self) -> list[str]:
            return ["base"]

    made.__dict__.update(Config=lambda **given: given, Executor=Executor)
    return made


def test_a_patch_comes_to_a_module_once() -> None:
    made = module()
    assert once(made, "a")
    assert not once(made, "a")
    assert once(made, "b")
    assert once(module(), "a")


def test_added_arguments_stack_in_any_order_and_never_override_the_caller() -> None:
    for order in itertools.permutations([{"x": 1}, {"y": 2}]):
        made = module()
        for add in order:
            default_arguments(made, "Config", lambda given, add=add: add)
        assert made.Config(z=3) == {"x": 1, "y": 2, "z": 3}
        assert made.Config(x=9) == {"x": 9, "y": 2}


def test_subclasses_stack_on_whatever_class_stands_there() -> None:
    def adding(name: str) -> Any:
        return lambda base: {"run": lambda self: [*base.run(self), name]}

    made = module()
    original = made.Executor
    subclass(made, "Executor", adding("one"))
    subclass(made, "Executor", adding("two"))
    assert made.Executor().run() == ["base", "one", "two"]
    assert isinstance(made.Executor(), original)


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(site))
    yield site
    for name in [name for name in sys.modules if name.split(".")[0] == "speculators"]:
        del sys.modules[name]


def test_code_that_differs_by_a_character_is_refused_by_name(installed: Path) -> None:
    from compat.source import find

    dotted = f"{replace.WORKER}.HiddenStatesWorkerExtension._setup_hidden_states_capture"
    code = find(installed, dotted)
    expect(dotted, (code.digest,))
    path = installed / code.file
    path.write_text(path.read_text().replace("self._layer_ids = layer_ids", "self._layer_ids = list(layer_ids)"))
    with pytest.raises(Refused, match=r"custom_worker\.py:\d+ .* is not the code that this patch was written for"):
        expect(dotted, (code.digest,))


def test_a_package_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match="no_such_package"):
        expect("no_such_package.thing", ("",))
