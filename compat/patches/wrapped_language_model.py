"""Targets with vision keep their decoder in a language model inside; speculators looks for it outside."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom
from compat.replace import WORKER, check_wrap, text_model, worker_module, wrap

MODELS = "vllm.model_executor.models"
WRAPPERS = (
    f"{MODELS}.kimi_k25.KimiK25ForConditionalGeneration",
    f"{MODELS}.qwen3_vl.Qwen3VLForConditionalGeneration",
)
REPLACES = f"{WORKER}.HiddenStatesWorkerExtension._setup_hidden_states_capture"
WRITTEN_FOR = (
    "68b84bc2c4d45d9af094247212c0c95bcaec0b01f14660378b96548e57b15fc0",  # 0.3.0
    "302fbef5d7ea7a79b9b8abfdd63b175b261a6414a3921490f0bac082507cf3fc",  # 0.4
)


def probe(site: Path) -> Probe:
    caller = source.find(site, REPLACES)
    unwraps = "get_language_model().model" in caller.text
    for name in WRAPPERS:
        try:
            model = source.find(site, name)
        except source.SourceNotFound:
            continue
        kept = _assigned(model, "language_model")
        if kept is None or _assigned(model, "model"):
            continue
        what = f"{model.at(kept)} keeps the decoder in language_model"
        if not unwraps:
            return Probe(True, f"{what}, and {caller.place} looks for it in model")
        if "DeepseekV2Model(" in ast.unparse(kept):
            return Probe(True, f"{what} without a causal model around it, which {caller.place} takes for granted")
    return Probe(False, f"{caller.place} finds the decoder of every wrapper it was read for")


def _assigned(model: source.Code, name: str) -> ast.Assign | None:
    assigns = (node for node in ast.walk(model.node) if isinstance(node, ast.Assign))
    return next((node for node in assigns if ast.unparse(node.targets[0]) == f"self.{name}"), None)


def apply() -> None:
    wrap(worker_module().HiddenStatesWorkerExtension, "_setup_hidden_states_capture", _inside)


def verify() -> str:
    return check_wrap(worker_module().HiddenStatesWorkerExtension, "_setup_hidden_states_capture", __name__)


def _inside(setup: Any) -> Any:
    def _setup_hidden_states_capture(self: Any, layer_ids: list[int]) -> None:
        wrapper = self.model_runner.model
        self.model_runner.model = text_model(wrapper)
        try:
            setup(self, layer_ids)
        finally:
            self.model_runner.model = wrapper

    return _setup_hidden_states_capture


PATCH = Patch(
    id="wrapped-language-model",
    drift="D06",
    title="The decoder of a target with vision is not found",
    speculators=">=0.3.0,<0.5.0",
    vllm=">=0.11.0",
    architectures=("KimiK25ForConditionalGeneration", "Qwen3VLForConditionalGeneration"),
    symptoms=(
        Symptom(
            "AttributeError",
            message=r"'\w+' object has no attribute 'model'",
            innermost="__getattr__",
            functions=("_setup_hidden_states_capture",),
        ),
    ),
    cause="Classes such as KimiK25ForConditionalGeneration have no attribute model: the language model is in "
    "language_model. speculators 0.3.0 never looks there; 0.4 does, and fails on vLLM 0.15's Kimi-K2.5, which keeps "
    "the bare decoder.",
    mend="Shows the worker extension the language model inside while it sets the capture up.",
    replaces=REPLACES,
    where="worker",
    after=WORKER,
    probe=probe,
    apply=apply,
    verify=verify,
    risk="Only text is extracted: pictures in a prompt have not been tried.",
    story="Not named there; with eagle3-gate why the worker had to be rewritten for Kimi-K2.5.",
    references=("vllm-project/speculators#225",),
    written_for=WRITTEN_FOR,
    signs=(Sign("unsupported-architecture", "", "model"),),
)
