"""vLLM's SchedulerConfig asks whether the model is an encoder-decoder; speculators 0.3.0 does not say."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom
from compat.replace import GENERATOR, check_argument, default_arguments, generator_module

REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator._create_vllm_config"
WRITTEN_FOR = ("640404a3dbe3c6d1f112fca1c88cf3e47634b12c4daf33d622f7b92b0cf35ec6",)


def probe(site: Path) -> Probe:
    config = source.find(site, "vllm.config.scheduler.SchedulerConfig")
    caller = source.find(site, REPLACES)
    flag = source.field(config, "is_encoder_decoder")
    if flag is None or flag.value is not None:
        return Probe(False, f"{config.place}: SchedulerConfig does not require is_encoder_decoder")
    for call in source.calls(caller, "SchedulerConfig"):
        if "is_encoder_decoder" not in source.keywords(call):
            return Probe(True, f"{config.at(flag)} requires is_encoder_decoder, which {caller.at(call)} does not pass")
    return Probe(False, f"{caller.place} passes is_encoder_decoder")


def apply() -> None:
    default_arguments(generator_module(), "SchedulerConfig", is_encoder_decoder=False)


def verify() -> str:
    return check_argument(generator_module(), "SchedulerConfig", "is_encoder_decoder")


PATCH = Patch(
    id="encoder-decoder-flag",
    drift="D01",
    title="SchedulerConfig requires is_encoder_decoder",
    speculators="==0.3.0",
    vllm=">=0.12.0",
    symptoms=(
        Symptom(
            "ValidationError",
            message=r"for SchedulerConfig\s+is_encoder_decoder\s+Field required",
            innermost="__init__",
        ),
    ),
    cause="vLLM 0.12.0 made is_encoder_decoder a required argument of SchedulerConfig; the generator leaves it out.",
    mend="Passes is_encoder_decoder=False, which is true of every decoder-only target.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    risk="Wrong for an encoder-decoder target, which EAGLE-3 has no use for.",
    references=("vllm-project/speculators#225",),
    written_for=WRITTEN_FOR,
    signs=(Sign("missing-argument", "SchedulerConfig", "is_encoder_decoder"),),
)
