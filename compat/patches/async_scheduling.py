"""vLLM schedules a step ahead by default; speculators drives the plain scheduler, a step at a time."""

from __future__ import annotations

import ast
from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Sign
from compat.replace import GENERATOR, check_argument, default_arguments, generator_module

REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator._create_vllm_config"
WRITTEN_FOR = (
    "640404a3dbe3c6d1f112fca1c88cf3e47634b12c4daf33d622f7b92b0cf35ec6",  # 0.3.0
    "a47f23e1de77358ef4c1aa9397a4611ea7d3184a1d04af89e0aa7768f723375f",  # 0.4
)


def probe(site: Path) -> Probe:
    config = source.find(site, "vllm.config.scheduler.SchedulerConfig")
    caller = source.find(site, REPLACES)
    default = source.field(config, "async_scheduling")
    if default is None or default.value is None or ast.unparse(default.value) == "False":
        return Probe(False, f"{config.place}: a step ahead is not scheduled by default")
    for call in source.calls(caller, "SchedulerConfig"):
        if "async_scheduling" not in source.keywords(call):
            return Probe(True, f"{config.at(default)} lets vLLM schedule a step ahead, and {caller.at(call)} allows it")
    return Probe(False, f"{caller.place} sets async_scheduling itself")


def apply() -> None:
    default_arguments(generator_module(), "SchedulerConfig", async_scheduling=False)


def verify() -> str:
    return check_argument(generator_module(), "SchedulerConfig", "async_scheduling")


PATCH = Patch(
    id="async-scheduling",
    drift="D15",
    title="A step ahead is scheduled by default",
    speculators=">=0.3.0,<0.5.0",
    vllm=">=0.14.0",
    cause="vLLM 0.14.0 turned async_scheduling on where nothing speaks against it. The workers then expect the "
    "scheduler that belongs to it, and the generator makes the plain one. Nothing is known to fail by it.",
    mend="SchedulerConfig(async_scheduling=False): workers and scheduler agree.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    risk="None known; vLLM's CPU build has it off anyway.",
    written_for=WRITTEN_FOR,
    signs=(Sign("changed-default", "SchedulerConfig", "async_scheduling"),),
)
