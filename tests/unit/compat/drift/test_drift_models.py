"""What the caller binds into models, extends, or assumes of the target's class."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from drift_pair import EXTENSION, MODELS, Pair

from compat.drift import probe

Told = list[tuple[str, str, str, str]]
LLAMA = f"{MODELS}/llama.py"


def another(pair: Pair, name: str, **changes: str) -> None:
    """A second model like the first, with some of its words changed."""
    text = (pair.site / LLAMA).read_text().replace("Llama", name)
    for old, new in changes.items():
        text = text.replace(old, new)
    pair.put(f"{MODELS}/{name.lower()}.py", text)


def test_what_most_models_do_not_have_fails(pair: Pair, told: Callable[..., Told]) -> None:
    for name in ("Qwen", "Mistral"):
        another(pair, name, **{"def embed": "def embed_input_ids"})
    assert told() == [("fails", "missing-attribute", "", "embed")]


def test_what_one_of_three_models_lacks_is_no_finding(pair: Pair, told: Callable[..., Told]) -> None:
    another(pair, "Qwen", **{"def embed": "def embed_input_ids"})
    another(pair, "Mistral")
    assert told() == []


def test_a_replacement_narrower_than_what_several_models_take(pair: Pair, told: Callable[..., Told]) -> None:
    pair.change(LLAMA, "inputs_embeds=None", "inputs_embeds=None, deepstack=None")
    another(pair, "Qwen")
    assert told() == [("may fail", "narrow-override", "forward", "deepstack")]
    pair.change(EXTENSION, "inputs_embeds=None):", "inputs_embeds=None, **rest):")
    assert told() == [("silent", "narrow-override", "forward", "deepstack")]


def test_a_parameter_of_one_model_alone_concerns_only_that_target(pair: Pair, told: Callable[..., Told]) -> None:
    another(pair, "Qwen", inputs_embeds="inputs_embeds=None, deepstack")
    another(pair, "Mistral")
    twin = "class QwenTwin(QwenModel):\n    def forward(self, input_ids, positions, inputs_embeds=None): ...\n\n\n"
    pair.change(f"{MODELS}/qwen.py", "class QwenForCausalLM", f"{twin}class QwenForCausalLM")
    pair.put(f"{MODELS}/registry.py", 'M = {"Q": ("qwen", "QwenForCausalLM"), "L": ("llama", "LlamaForCausalLM")}\n')
    assert told() == []
    assert told("L") == []
    assert told("Q") == [("may fail", "narrow-override", "forward", "deepstack")]


def test_the_model_inside_a_wrapper_is_the_one_that_counts(pair: Pair, told: Callable[..., Told]) -> None:
    another(pair, "Qwen", **{"inputs_embeds=None": "inputs_embeds=None, deepstack=None"})
    another(pair, "Mistral", **{"inputs_embeds=None": "inputs_embeds=None, deepstack=None"})
    wrapper = "from vllm.model_executor.models.interfaces import SupportsEagle3\n\n\nclass Wrapper(SupportsEagle3):\n"
    pair.put(f"{MODELS}/wrapper.py", f'{wrapper}    def __init__(self):\n        self.model = make("INNER")\n')
    names = {"Wrapper": "wrapper", "LlamaForCausalLM": "llama", "QwenForCausalLM": "qwen"}
    pair.put(f"{MODELS}/registry.py", f"M = { {name: (module, name) for name, module in names.items()} }\n")
    narrow = [("may fail", "narrow-override", "forward", "deepstack")]
    assert told() == narrow
    pair.change(f"{MODELS}/wrapper.py", "INNER", "LlamaForCausalLM")
    assert told("Wrapper") == []
    pair.change(f"{MODELS}/wrapper.py", "LlamaForCausalLM", "QwenForCausalLM")
    assert told("Wrapper") == narrow


def test_models_that_demand_more_or_are_not_marked_are_not_meant(pair: Pair, told: Callable[..., Told]) -> None:
    another(pair, "Draft", **{"positions, inputs_embeds=None": "positions, hidden_states, deepstack=None"})
    another(pair, "Drafts", **{"positions, inputs_embeds=None": "positions, hidden_states, deepstack=None"})
    another(pair, "Plain", **{", SupportsEagle3": "", "inputs_embeds=None": "deepstack=None"})
    another(pair, "Plainer", **{", SupportsEagle3": "", "inputs_embeds=None": "deepstack=None"})
    assert told() == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("hidden_states, residual): ...", "hidden_states): ...", ("unknown-argument", "residual")),
        ("hidden_states, residual): ...", "hidden_states, residual, step): ...", ("missing-argument", "step")),
        ("hidden_states, residual): ...", "hidden_states, residual, step=0): ...", None),
    ],
)
def test_layers_that_do_not_take_the_call(
    pair: Pair, told: Callable[..., Told], old: str, new: str, expected: tuple[str, str] | None
) -> None:
    pair.change(LLAMA, old, new)
    another(pair, "Qwen")
    kind, name = expected or ("", "")
    assert told() == ([("fails", kind, "layer.forward", name)] if expected else [])
    another(pair, "Granite", **{new: old})
    assert told() == ([("may fail", kind, "layer.forward", name)] if expected else [])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("(nn.Module, SupportsEagle3)", "(nn.Module)", [("LlamaForCausalLM", "SupportsEagle3")]),
        ("self.model = LlamaModel()", "self.language_model = LlamaModel()", [("LlamaForCausalLM", "model")]),
    ],
)
def test_what_the_targets_class_must_be(
    pair: Pair, told: Callable[..., Told], old: str, new: str, expected: list[tuple[str, str]]
) -> None:
    pair.change(LLAMA, old, new)
    assert told() == []
    assert told("LlamaForCausalLM") == [("fails", "unsupported-architecture", *one) for one in expected]


def test_an_architecture_that_the_callee_does_not_have(pair: Pair, told: Callable[..., Told]) -> None:
    assert told("NoSuchForCausalLM")[0] == ("fails", "unsupported-architecture", "NoSuchForCausalLM", "")


def test_the_part_that_a_model_gives_is_looked_into(pair: Pair, told: Callable[..., Told]) -> None:
    pair.change(EXTENSION, "decoder = model.model", "decoder = model.get_language_model().model")
    pair.change(
        LLAMA,
        "self.model = LlamaModel()",
        "self.lm = LlamaModel()\n\n    def get_language_model(self):\n        return self.lm",
    )
    assert told("LlamaForCausalLM") == [("fails", "unsupported-architecture", "LlamaForCausalLM", "model")]


BASE = """
from abc import ABC, abstractmethod


class Connector(ABC):
    def __init__(self, config, role): ...

    @abstractmethod
    def save(self, name): ...

    def load(self, name, layer=None): ...
"""
MINE = """
from vllm.connector import Connector


class Mine(Connector):
    def __init__(self, config, role):
        super().__init__(config, role)

    def save(self, name): ...

    def load(self, name, layer=None):
        super().load(name, layer)
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", None),
        ("config, role)", "config, role, kv_config)", ("missing-argument", "Connector.__init__", "kv_config")),
        ("layer=None)", "layer=None, wait=False)", ("narrow-override", "Connector.load", "wait")),
        ("def load(self, name, layer=None)", "def load(self, name)", ("too-many-arguments", "Connector.load", "2")),
        (
            "    def load",
            "    @abstractmethod\n    def stop(self): ...\n\n    def load",
            ("missing-override", "Connector", "stop"),
        ),
        ("def load", "def fetch", ("missing-method", "Connector", "load")),
    ],
)
def test_classes_that_extend_the_callees(
    pair: Pair, told: Callable[..., Told], old: str, new: str, expected: tuple[str, str, str] | None
) -> None:
    pair.put("vllm/connector.py", BASE.replace(old, new) if old else BASE)
    pair.put("speculators/connector.py", MINE)
    severity = "may fail" if expected and expected[0] == "narrow-override" else "fails"
    assert told() == ([(severity, *expected)] if expected else [])


def test_a_class_that_another_completes_need_not_be_whole(pair: Pair, told: Callable[..., Told]) -> None:
    pair.put("vllm/connector.py", BASE)
    begun = "from vllm.connector import Connector\n\n\nclass Begun(Connector): ...\n"
    pair.put("speculators/connector.py", begun)
    assert told() == [("fails", "missing-override", "Connector", "save")]
    pair.put("speculators/connector.py", f"{begun}\n\nclass Done(Begun):\n    def save(self, name): ...\n")
    assert told() == []
    pair.put("speculators/connector.py", f"{begun[:-4]}\n    save = None\n")
    assert told() == []


def test_every_kind_of_replacement_says_whom_it_concerns(pair: Pair) -> None:
    pair.change(LLAMA, "inputs_embeds=None", "inputs_embeds=None, deepstack=None")
    another(pair, "Qwen")
    (finding,) = probe(pair.site).findings
    assert "LlamaModel, QwenModel" in finding.message
    assert finding.place.function == "_forward"
