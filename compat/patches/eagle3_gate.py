"""speculators 0.3.0 refuses every target whose class does not say that it supports EAGLE-3."""

from __future__ import annotations

import ast
from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom
from compat.replace import WORKER, worker_module

MODEL = "vllm.model_executor.models.deepseek_v2.DeepseekV2ForCausalLM"
REPLACES = f"{WORKER}.HiddenStatesWorkerExtension._setup_hidden_states_capture"
WRITTEN_FOR = ("68b84bc2c4d45d9af094247212c0c95bcaec0b01f14660378b96548e57b15fc0",)


def probe(site: Path) -> Probe:
    caller = source.find(site, REPLACES)
    model = source.find(site, MODEL)
    asks = source.calls(caller, "supports_eagle3")
    if not asks:
        return Probe(False, f"{caller.place} takes any target class")
    bases = [ast.unparse(base) for base in getattr(model.node, "bases", ())]
    if "SupportsEagle3" in bases:
        return Probe(False, f"{model.place}: DeepseekV2ForCausalLM says that it supports EAGLE-3")
    return Probe(True, f"{caller.at(asks[0])} asks for SupportsEagle3, which {model.place} (DeepseekV2) does not have")


def apply() -> None:
    worker_module().supports_eagle3 = _any_target


def verify() -> str:
    module = worker_module()
    return "" if module.supports_eagle3 is _any_target else f"{module.__name__} asks its own supports_eagle3 again"


def _any_target(model: object) -> bool:
    return True


PATCH = Patch(
    id="eagle3-gate",
    drift="D05",
    title="Targets that do not say SupportsEagle3 are refused",
    speculators="==0.3.0",
    vllm=">=0.11.0,<0.18.0",
    architectures=(
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "KimiK25ForConditionalGeneration",
    ),
    symptoms=(Symptom("ValueError", message=r"^Model \w+ does not support hidden state extraction"),),
    cause="The worker extension asks vLLM's supports_eagle3, which is about serving a draft model: vLLM's DeepSeek and "
    "Kimi classes only say yes since 0.18. Capturing needs nothing but a decoder with layers.",
    mend="Takes the question out, as speculators 0.4.0 does.",
    replaces=REPLACES,
    where="worker",
    after=WORKER,
    probe=probe,
    apply=apply,
    verify=verify,
    risk="A class whose forward does more than run its layers would be captured wrongly; the gates compare the rows.",
    story="Not named there; with wrapped-language-model why the worker had to be rewritten for Kimi-K2.5.",
    references=("vllm-project/speculators#225", "vllm-project/vllm#31254", "vllm-project/vllm#31257"),
    written_for=WRITTEN_FOR,
    signs=(Sign("unsupported-architecture", "", "SupportsEagle3"),),
)
