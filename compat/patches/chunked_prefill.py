"""vLLM may run only a part of a prompt in a step; speculators 0.3.0 aborts every request after its first step."""

from __future__ import annotations

import ast
from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom
from compat.replace import GENERATOR, check_argument, default_arguments, generator_module

CALLER = f"{GENERATOR}.VllmHiddenStatesGenerator.generate"
REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator._create_vllm_config"
WRITTEN_FOR = ("640404a3dbe3c6d1f112fca1c88cf3e47634b12c4daf33d622f7b92b0cf35ec6",)


def probe(site: Path) -> Probe:
    config = source.find(site, "vllm.config.scheduler.SchedulerConfig")
    caller = source.find(site, REPLACES)
    loop = source.find(site, CALLER)
    default = source.field(config, "enable_chunked_prefill")
    if default is None or default.value is None or ast.unparse(default.value) != "True":
        return Probe(False, f"{config.place}: chunked prefill is not on by default")
    if any("enable_chunked_prefill" in source.keywords(call) for call in source.calls(caller, "SchedulerConfig")):
        return Probe(False, f"{caller.place} sets enable_chunked_prefill itself")
    aborts = source.calls(loop, "self.scheduler.finish_requests")
    if not aborts:
        return Probe(False, f"{loop.place} does not abort requests after their first step")
    return Probe(
        True, f"{config.at(default)} lets a prompt run in parts, and {loop.at(aborts[0])} aborts it after the first"
    )


def apply() -> None:
    default_arguments(generator_module(), "SchedulerConfig", enable_chunked_prefill=False)


def verify() -> str:
    return check_argument(generator_module(), "SchedulerConfig", "enable_chunked_prefill")


PATCH = Patch(
    id="chunked-prefill",
    drift="D17",
    title="Prompts at a step's token limit are cut",
    speculators="==0.3.0",
    vllm=">=0.11.0",
    symptoms=(
        Symptom("RuntimeError", message=r"vLLM ran \d+ of the \d+ tokens of request"),
        Symptom("StageError", message=r"has \d+ rows of hidden states for \d+ tokens"),
    ),
    cause="When a batch has more tokens than max_num_batched_tokens (8192), vLLM runs the prompt at the limit in "
    "parts. The generator aborts it after the first part: its rows end early, and the rows of every later sample are "
    "shifted.",
    mend="SchedulerConfig(enable_chunked_prefill=False): a prompt that does not fit into a step waits for the next.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    risk="A batch above the limit takes one step more; max_num_batched_tokens is never below the longest prompt.",
    gate="rows",
    references=("vllm-project/speculators#279", "vllm-project/speculators#283"),
    silent=True,
    written_for=WRITTEN_FOR,
    signs=(Sign("changed-default", "SchedulerConfig", "enable_chunked_prefill"),),
)
