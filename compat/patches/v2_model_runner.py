"""vLLM's second model runner has no input_batch, by whose order speculators 0.4 gives rows to requests."""

from __future__ import annotations

import os
from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom
from compat.replace import WORKER

VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
REPLACES = f"{WORKER}.HiddenStatesWorkerExtension._store_captured_states"
WRITTEN_FOR = ("8654a536d7251e6631aa297ca4f11371a528cc6c063fecbb1cd3529add0459b1",)


def probe(site: Path) -> Probe:
    caller = source.find(site, REPLACES)
    if "self.model_runner.input_batch" not in caller.text:
        return Probe(False, f"{caller.place} does not read the runner's input_batch")
    try:
        choice = source.find(site, "vllm.config.vllm.VllmConfig.use_v2_model_runner")
    except source.SourceNotFound:
        return Probe(False, "vLLM never chooses its second model runner by itself")
    return Probe(
        True, f"{choice.place} may choose the second model runner, which has no input_batch for {caller.place}"
    )


def apply() -> None:
    os.environ.setdefault(VARIABLE, "0")  # the workers inherit it


def verify() -> str:
    value = os.environ.get(VARIABLE)
    return "" if value in ("0", "false", "False") else f"{VARIABLE} is {value} in the stage's environment; set it to 0"


PATCH = Patch(
    id="v2-model-runner",
    drift="D14",
    title="The second model runner has no input_batch",
    speculators="==0.4.*",
    vllm=">=0.22.0",
    symptoms=(Symptom("AttributeError", message=r"'\w*GPUModelRunner' object has no attribute 'input_batch'"),),
    cause="From 0.22.0 on vLLM chooses its second model runner by itself, first for Qwen3, then for Llama and Mistral, "
    "from 0.29.0 for most targets. The worker extension reads the first one's input_batch.",
    mend=f"Sets {VARIABLE}=0 before vLLM decides.",
    replaces=REPLACES,
    where="driver",
    after="vllm",
    probe=probe,
    apply=apply,
    verify=verify,
    risk="Read from the sources, never run. The first runner will be taken out of vLLM one day.",
    references=("vllm-project/vllm#49811",),
    written_for=WRITTEN_FOR,
    signs=(Sign("missing-attribute", "GPUModelRunner", "input_batch"),),
)
