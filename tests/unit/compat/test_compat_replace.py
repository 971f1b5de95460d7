"""How patches take the place of code: once, in any order, and never over other code."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from compat import replace
from compat.replace import (
    Refused,
    check_argument,
    check_override,
    check_wrap,
    default_arguments,
    drop_argument,
    expect,
    once,
    subclass,
    text_model,
    wrap,
)

CALLER = """
class Executor:
    def run(self):
        return ["base"]


def Config(**given):
    return given
"""


def module() -> ModuleType:
    made = ModuleType("caller")
    exec(CALLER, made.__dict__)
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
            default_arguments(made, "Config", **add)
        assert made.Config(z=3) == {"x": 1, "y": 2, "z": 3}
        assert made.Config(x=9) == {"x": 9, "y": 2}


def test_an_argument_is_seen_to_until_something_else_takes_its_place() -> None:
    made = module()
    assert "the argument x of Config" in check_argument(made, "Config", "x")
    default_arguments(made, "Config", x=1)
    drop_argument(made, "Config", "old")
    assert (check_argument(made, "Config", "x"), check_argument(made, "Config", "old")) == ("", "")
    assert made.Config(old=1, z=3) == {"x": 1, "z": 3}
    made.__dict__["Config"] = dict
    assert check_argument(made, "Config", "x")


def test_a_wrapped_method_is_seen_below_further_wraps() -> None:
    made = module()
    assert "run is not the patched one" in check_wrap(made.Executor, "run", __name__)
    wrap(made.Executor, "run", lambda old: lambda self: [*old(self), "one"])
    namespace: dict[str, Any] = {"__name__": "other"}
    exec("make = lambda old: lambda self: [*old(self), 'two']", namespace)
    wrap(made.Executor, "run", namespace["make"])
    assert made.Executor().run() == ["base", "one", "two"]
    assert check_wrap(made.Executor, "run", __name__) == ""


def test_an_overridden_method_is_seen_through_further_subclasses() -> None:
    made = module()
    assert "run is not the patched one" in check_override(made.Executor, "run", __name__)
    subclass(made, "Executor", lambda base: {"run": lambda self: base.run(self)})
    subclass(made, "Executor", lambda base: {})
    assert check_override(made.Executor, "run", __name__) == ""


def test_the_decoder_is_found_below_every_kind_of_wrapper() -> None:
    decoder = SimpleNamespace(layers=[])
    causal = SimpleNamespace(model=decoder)
    assert text_model(causal) is causal
    assert text_model(SimpleNamespace(language_model=causal)) is causal
    assert text_model(SimpleNamespace(language_model=decoder)).model is decoder
    with pytest.raises(AttributeError, match="language_model"):
        text_model(SimpleNamespace(vision_tower=None))


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
