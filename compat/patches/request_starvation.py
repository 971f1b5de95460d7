"""speculators 0.4 ends no request before all are done, so that vLLM never starts the 33rd."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Symptom
from compat.replace import GENERATOR, check_wrap, generator_module, wrap

REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator.generate"
WRITTEN_FOR = ("7bf379176a53b961671ed50acf1b2ce3698184d060cd9116dce5bb38397abf6f",)


def probe(site: Path) -> Probe:
    caller = source.find(site, REPLACES)
    loops = [node for node in ast.walk(caller.node) if isinstance(node, ast.While)]
    ends = source.calls(caller, "self.scheduler.finish_requests")
    if not loops or not ends:
        return Probe(False, f"{caller.place} runs no scheduler of its own")
    inside = {id(node) for loop in loops for node in ast.walk(loop)}
    if any(id(end) in inside for end in ends):
        return Probe(False, f"{caller.at(ends[0])} ends each request after its step, which makes room for the next")
    return Probe(
        True, f"{caller.at(ends[0])} ends requests only when all are done, and vLLM runs MAX_NUM_SEQS at a time"
    )


def apply() -> None:
    wrap(generator_module().VllmHiddenStatesGenerator, "generate", _in_parts)


def verify() -> str:
    return check_wrap(generator_module().VllmHiddenStatesGenerator, "generate", __name__)


def _in_parts(old: Any) -> Any:
    def generate(self: Any, token_ids: Any) -> Any:
        most = generator_module().MAX_NUM_SEQS
        if len(token_ids) <= most:
            return old(self, token_ids)
        parts = [token_ids[start : start + most] for start in range(0, len(token_ids), most)]
        return [result for part in parts for result in old(self, part)]

    return generate


PATCH = Patch(
    id="request-starvation",
    drift="",
    title="A batch of more than 32 prompts starves",
    speculators="==0.4.*",
    vllm=">=0.11.0",
    symptoms=(
        Symptom("RuntimeError", message=r"^Request req_\d+_\d+ not found in captured states", innermost="generate"),
    ),
    cause="vLLM runs at most MAX_NUM_SEQS (32) requests at a time, and speculators 0.4 ends none before all have run: "
    "the others wait for ever, nothing is left to schedule, and their states are missing. speculators 0.3.0 ends each "
    "request after its step and does not have this (40 prompts in one batch on vLLM 0.16.0: every row is right).",
    mend="Gives the generator at most 32 prompts at a time.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    references=("vllm-project/speculators#365",),
    written_for=WRITTEN_FOR,
)
