"""Newer trainers give a draft model norms that an older engine does not apply when it serves it."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Symptom

TRAINER = "speculators.models.eagle3.config.Eagle3SpeculatorConfig"
ENGINE = "vllm.model_executor.models.llama_eagle3"
NAMES = {"norm_before_fc": "input_norm", "fc_norm": "fc_norm", "norm_output": "norm_output"}
"""Field of the trainer's config → the name by which the engine knows it."""


def probe(site: Path) -> Probe:
    config = source.find(site, TRAINER)
    engine = source.module(site, ENGINE)
    unknown = [name for name, known in NAMES.items() if source.field(config, name) and known not in engine.text]
    if unknown:
        return Probe(True, f"{config.place} has {', '.join(unknown)}, which {engine.file} does not know")
    return Probe(False, f"{engine.file} knows every norm of {config.place}")


PATCH = Patch(
    id="newer-norms",
    drift="",
    title="The engine ignores norms that the draft model was trained with",
    speculators=">=0.5.0",
    vllm=">=0.11.0",
    symptoms=(Symptom("KeyError", message=r"input_norm\.weight", functions=("load_weights",)),),
    cause="Newer speculators turn norm_before_fc and norm_output on for EAGLE-3. An engine without input_norm fails to "
    "load the draft model; one without norm_output loads it, serves it, and accepts little.",
    mend="Serve with vLLM 0.25 or later (0.22 reads them of a draft in plain form alone), or train with "
    "--no-norm-before-fc --no-norm-output.",
    probe=probe,
    silent=True,
    gate="engine-norms",
    references=("vllm-project/speculators#610", "vllm-project/speculators#1065"),
)
