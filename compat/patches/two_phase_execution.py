"""execute_model only runs the forward pass now; the step ends with sample_tokens, which speculators never calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom
from compat.replace import GENERATOR, check_override, generator_module, subclass

EXECUTOR = "vllm.v1.executor.multiproc_executor.MultiprocExecutor"
REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator.generate"
WRITTEN_FOR = ("6800c30a41ded4457e14f5e3f11b51f7b576a7a30ce72c8c60de914c4d5c2431",)


def probe(site: Path) -> Probe:
    caller = source.find(site, REPLACES)
    try:
        second = source.find(site, f"{EXECUTOR}.sample_tokens")
    except source.SourceNotFound:
        return Probe(False, "MultiprocExecutor has no sample_tokens: a step is one call")
    steps = source.calls(caller, "self.executor.execute_model")
    if not steps or source.calls(caller, "self.executor.sample_tokens"):
        return Probe(False, f"{caller.place} ends its steps itself")
    return Probe(True, f"a step ends with {second.place} (sample_tokens), which {caller.at(steps[0])} never calls")


def apply() -> None:
    subclass(generator_module(), "MultiprocExecutor", _members)


def verify() -> str:
    return check_override(generator_module().MultiprocExecutor, "execute_model", __name__)


def _members(base: Any) -> Mapping[str, Any]:
    def execute_model(self: Any, scheduler_output: Any, *args: Any, **given: Any) -> Any:
        result = base.execute_model(self, scheduler_output, *args, **given)
        return self.sample_tokens(None) if result is None else result

    return {"execute_model": execute_model}


PATCH = Patch(
    id="two-phase-execution",
    drift="D08",
    title="A step has two phases: execute_model, then sample_tokens",
    speculators="==0.3.0",
    vllm=">=0.11.1",
    symptoms=(
        Symptom("RuntimeError", message=r"^State error: sample_tokens\(\) must be called after execute_model\(\)"),
    ),
    cause="Since vLLM 0.11.1 execute_model returns None and the step must be ended with sample_tokens; the generator "
    "does not, so the second step of a process is refused by the workers.",
    mend="Calls sample_tokens(None) whenever execute_model returned None.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    story="Named there as two-phase execution, and right. It shows only at the second step of a process.",
    references=("vllm-project/vllm#26866", "vllm-project/speculators#225"),
    written_for=WRITTEN_FOR,
    signs=(Sign("needed-step", "MultiprocExecutor", "sample_tokens"),),
)
