"""vLLM's Request lost eos_token_id, which speculators still passes."""

from __future__ import annotations

from pathlib import Path

from compat.patch import Patch, Probe, Sign, Symptom
from compat.probes import passes_dropped
from compat.replace import GENERATOR, check_argument, drop_argument, generator_module

CALLEE = "vllm.v1.request.Request.__init__"
REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator.generate"
WRITTEN_FOR = (
    "6800c30a41ded4457e14f5e3f11b51f7b576a7a30ce72c8c60de914c4d5c2431",  # 0.3.0
    "7bf379176a53b961671ed50acf1b2ce3698184d060cd9116dce5bb38397abf6f",  # 0.4
)


def probe(site: Path) -> Probe:
    return passes_dropped(site, REPLACES, CALLEE, "eos_token_id")


def apply() -> None:
    drop_argument(generator_module(), "Request", "eos_token_id")


def verify() -> str:
    return check_argument(generator_module(), "Request", "eos_token_id")


PATCH = Patch(
    id="eos-token-id",
    drift="D10",
    title="Request has no eos_token_id any more",
    speculators=">=0.3.0,<0.5.0",
    vllm=">=0.17.0",
    symptoms=(
        Symptom("TypeError", message=r"Request\.__init__\(\) got an unexpected keyword argument 'eos_token_id'"),
    ),
    cause="vLLM 0.17.0 moved eos_token_id from Request to SamplingParams.",
    mend="Drops the argument on the way: extraction samples one token and never asks where a text ends.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    risk="Read from the sources of vLLM 0.17 and later, never run on them.",
    references=("vllm-project/vllm#34435",),
    written_for=WRITTEN_FOR,
    signs=(Sign("unknown-argument", "Request.__init__", "eos_token_id"),),
)
