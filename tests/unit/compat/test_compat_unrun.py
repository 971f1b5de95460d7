"""Patches for releases and targets that do not run here: what they do to the names they take the place of."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from compat.catalogue import get
from compat.patches.full_tracebacks import describe
from compat.replace import GENERATOR, WORKER


def module(monkeypatch: pytest.MonkeyPatch, name: str, **names: Any) -> Any:
    """A module of speculators' with just these names."""
    made = ModuleType(name)
    made.__dict__.update(names)
    monkeypatch.setitem(sys.modules, name, made)
    return made


def in_force(patch: str) -> None:
    """Applies a patch; before that its check must fail."""
    entry = get(patch)
    assert entry and entry.apply and entry.verify
    assert entry.verify()
    entry.apply()
    assert entry.verify() == ""


def test_kv_cache_specs_are_those_of_the_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    made = module(monkeypatch, GENERATOR, get_kv_cache_config_from_groups=lambda **given: given)
    in_force("kv-cache-specs-required")
    groups = [
        SimpleNamespace(layer_names=["a", "b"], kv_cache_spec=1),
        SimpleNamespace(layer_names=["c"], kv_cache_spec=2),
    ]
    assert made.get_kv_cache_config_from_groups(kv_cache_groups=groups) == {
        "kv_cache_groups": groups,
        "kv_cache_specs": {"a": 1, "b": 1, "c": 2},
    }


def test_eos_token_id_never_reaches_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    made = module(monkeypatch, GENERATOR, Request=lambda **given: given)
    in_force("eos-token-id")
    assert made.Request(request_id="req_0_0", eos_token_id=2) == {"request_id": "req_0_0"}


def test_the_warm_up_follows_the_kv_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    class MultiprocExecutor:
        def __init__(self) -> None:
            self.done: list[object] = []

        def initialize_from_config(self, configs: list[str]) -> None:
            self.done.append(configs)

        def compile_or_warm_up_model(self) -> None:
            self.done.append("warm")

    made = module(monkeypatch, GENERATOR, MultiprocExecutor=MultiprocExecutor)
    in_force("warm-up")
    executor = made.MultiprocExecutor()
    executor.initialize_from_config(["a"])
    assert executor.done == [["a"], "warm"]


class Tensor:
    def __init__(self, *values: float) -> None:
        self.values = values

    def any(self) -> bool:
        return any(self.values)


def test_deepstack_features_pass_when_zero_and_pictures_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = module(monkeypatch, WORKER, _patched_forward=lambda self, ids, positions=None: (ids, positions))
    in_force("deepstack-inputs")
    text = SimpleNamespace(tensors={"0": Tensor(0, 0), "1": Tensor(0, 0)})
    picture = SimpleNamespace(tensors={"0": Tensor(0, 0), "1": Tensor(0, 0.5)})
    assert made._patched_forward(None, 1, positions=2, deepstack_input_embeds=text) == (1, 2)
    assert made._patched_forward(None, 1, positions=2) == (1, 2)
    with pytest.raises(RuntimeError, match="a prompt has pictures"):
        made._patched_forward(None, 1, positions=2, deepstack_input_embeds=picture)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "environ", {})
    yield


@pytest.mark.usefixtures("environment")
def test_the_first_model_runner_is_asked_for_and_another_wish_is_told() -> None:
    in_force("v2-model-runner")
    assert os.environ["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
    entry = get("v2-model-runner")
    assert entry and entry.apply and entry.verify
    entry.apply()
    assert "VLLM_USE_V2_MODEL_RUNNER is 1" in entry.verify()


def test_an_error_without_words_is_described_by_its_place() -> None:
    try:
        assert os.sep == ""
    except AssertionError as error:
        raised = AssertionError().with_traceback(error.__traceback__)
    text = describe(raised)
    assert text.startswith("AssertionError at ")
    assert text.endswith('in test_an_error_without_words_is_described_by_its_place: assert os.sep == ""')
    assert describe(AssertionError()) == "AssertionError"
    with pytest.raises(AssertionError) as without_source:
        exec("def check():\n    assert False\ncheck()", {})
    assert describe(without_source.value).endswith("in check")
