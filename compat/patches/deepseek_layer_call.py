"""The story rewrote the worker's forward for DeepseekV2 layers; the call that it replaced fits in every release."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.patch import Patch, Probe
from compat.replace import WORKER

CALLER = f"{WORKER}._patched_forward"
LAYER = "vllm.model_executor.models.deepseek_v2.DeepseekV2DecoderLayer.forward"


def probe(site: Path) -> Probe:
    caller = source.find(site, CALLER)
    layer = source.find(site, LAYER)
    for call in source.calls(caller, "layer"):
        unfit = source.keywords(call) - source.parameters(layer)
        missing = source.required_parameters(layer) - source.keywords(call)
        if unfit or missing:
            return Probe(True, f"{caller.at(call)} does not fit {layer.place}: {', '.join(sorted(unfit | missing))}")
    return Probe(False, f"{caller.place} calls a layer by keywords that {layer.place} takes")


PATCH = Patch(
    id="deepseek-layer-call",
    drift="",
    title="The worker's call of a DeepseekV2 layer",
    speculators=">=0.3.0,<0.5.0",
    vllm=">=0.11.0",
    architectures=("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "KimiK25ForConditionalGeneration"),
    cause="DeepseekV2DecoderLayer.forward(positions, hidden_states, residual, llama_4_scaling=None) takes the call by "
    "keywords in every release read (0.11.0 to 0.32.0). Only a config that sets llama_4_scaling would lose its effect; "
    "no DeepSeek or Kimi config does.",
    mend="Nothing is mended. For DeepSeek and Kimi targets switch on eagle3-gate and wrapped-language-model.",
    probe=probe,
    replaces=CALLER,
    story="Named there as the worker's forward for DeepseekV2, and wrong: calls by keyword and by position give the "
    "same states (measured on vLLM 0.16.0). What stopped Kimi-K2.5 was eagle3-gate, then wrapped-language-model.",
)
