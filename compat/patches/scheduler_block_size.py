"""vLLM's Scheduler must be told the block size; speculators 0.3.0 does not tell it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compat.patch import Patch, Probe, Sign, Symptom
from compat.probes import omits_required
from compat.replace import GENERATOR, check_override, generator_module, subclass

CALLEE = "vllm.v1.core.sched.scheduler.Scheduler.__init__"
REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator.__init__"
WRITTEN_FOR = ("645fe509445cbb697326d36fe9fa17afcda7018e96de1ca211a7397c42b6126f",)


def probe(site: Path) -> Probe:
    return omits_required(site, REPLACES, CALLEE, "block_size")


def apply() -> None:
    subclass(generator_module(), "Scheduler", _members)


def verify() -> str:
    return check_override(generator_module().Scheduler, "__init__", __name__)


def _members(base: Any) -> Mapping[str, Any]:
    def __init__(self: Any, *args: Any, **given: Any) -> None:
        given.setdefault("block_size", given["vllm_config"].cache_config.block_size)
        base.__init__(self, *args, **given)

    return {"__init__": __init__}


PATCH = Patch(
    id="scheduler-block-size",
    drift="D03",
    title="Scheduler requires block_size",
    speculators="==0.3.0",
    vllm=">=0.11.1",
    symptoms=(
        Symptom("TypeError", message=r"Scheduler\.__init__\(\) missing 1 required positional argument: 'block_size'"),
    ),
    cause="vLLM 0.11.1 gave Scheduler.__init__ a required argument block_size.",
    mend="Passes the block size of the cache config.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    story="Named there as the Scheduler's arguments, and right; that SchedulerConfig lacks one too is not named.",
    references=("vllm-project/speculators#225",),
    written_for=WRITTEN_FOR,
    signs=(Sign("missing-argument", "Scheduler.__init__", "block_size"),),
)
