"""Run in the seed environment: extracts with silent entries switched off and asks the gates, one engine start a case.

`engine_gates.py LLAMA DEEPSEEK` prints `RESULT {case: {gate: [fault, sentence]}}`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from reference import Reference

from compat.activate import activate
from compat.replace import generator_module
from compat.switches import parse
from pipeline.engine.generator import Engine
from pipeline.gates import attribution, aux_layers, final_norm, finite, rotary, rows
from pipeline.gates.report import GateReport

IDS = (2, 4, 5, 8)
"""vLLM's ids of the layers that are wanted."""
OUTPUTS = (1, 3, 4, 7)
"""The same layers as indices of outputs."""
THEIR_OUTPUTS = (2, 4, 5, 7)
"""What speculators captures when it is left to its own default."""
Prompts = Sequence[list[int]]


def prompt(length: int, seed: int) -> list[int]:
    return [(7 * i * i + 13 * i + 101 * seed) % 900 + 10 for i in range(length)]


PREFIX = prompt(64, 1)
SHARED = [PREFIX + prompt(30, 2), PREFIX + prompt(45, 3), prompt(40, 9), PREFIX + prompt(11, 4)]
LONG = [prompt(500, seed) for seed in range(20)]
"""10,000 tokens; a step takes 8,192."""


def main() -> None:
    llama, deepseek = sys.argv[1:]
    result: dict[str, dict[str, GateReport]] = {}
    shared_alone, result["all patches on"] = all_on(llama)
    result["chunked-prefill off, layers left to speculators"] = chunks_and_layers(llama)
    result["prefix-caching off, block hasher given"] = hashed(llama, shared_alone)
    result["DeepSeek-V3, all patches on"] = rotation(deepseek, ())
    result["DeepSeek-V3, cpu-rotary off"] = rotation(deepseek, ("cpu-rotary",))
    told = {case: {r.gate: [r.fault, r.sentence] for r in reports.values()} for case, reports in result.items()}
    print("RESULT " + json.dumps(told), flush=True)


def all_on(target: str) -> tuple[list[Any], dict[str, GateReport]]:
    alone, (batched,), long_alone, (long_batched,) = extract(
        target, (), OUTPUTS, [[p] for p in SHARED], [SHARED], [[p] for p in LONG], [LONG]
    )
    alone, long_alone = [one for (one,) in alone], [one for (one,) in long_alone]
    reference = Reference(target, range(8))
    outputs, logits = reference.forward(SHARED[1])
    last, norm = batched[1][:, 3], reference.model.model.norm
    head = reference.model.lm_head.weight.detach()
    reports = [
        rows.check(batched[1], SHARED[1], SHARED[1], 4),
        finite.check(batched[1]),
        attribution.check([*alone, *long_alone], [*batched, *long_batched]),
        aux_layers.check(batched[1], every_layer(reference, SHARED[1], outputs), IDS),
        final_norm.check(last, logits, head, norm.weight.detach(), norm.variance_epsilon),
        rotary.check(batched[1], outputs[:, list(OUTPUTS)]),
    ]
    return alone, {report.gate: report for report in reports}


def chunks_and_layers(target: str) -> dict[str, GateReport]:
    # row-attribution would notice the cut and raise: without it the data are silently wrong.
    off = ("chunked-prefill", "row-attribution")
    alone, (batched,) = extract(target, off, THEIR_OUTPUTS, [[p] for p in LONG], [LONG])
    alone = [one for (one,) in alone]
    reference = Reference(target, range(8))
    outputs, logits = reference.forward(LONG[0])
    norm, head = reference.model.model.norm, reference.model.lm_head.weight.detach()
    last = alone[0][:, 3]
    reports = [
        attribution.check(alone, batched),
        aux_layers.check(alone[0], every_layer(reference, LONG[0], outputs), IDS),
        # The targets as speculators 0.3.0 trains on them: lm_head of the state before the final norm.
        final_norm.check(last, logits, head, norm.weight.detach(), norm.variance_epsilon, targets=last @ head.T),
        rows.check(batched[-1], LONG[-1], LONG[-1], 4),
    ]
    return {report.gate: report for report in reports}


def hashed(target: str, alone: list[Any]) -> dict[str, GateReport]:
    off = ("prefix-caching", "row-attribution")
    ((_, again),) = extract(target, off, OUTPUTS, [SHARED, SHARED], hasher=True)
    report = attribution.check(alone, again)
    return {report.gate: report}


def rotation(target: str, off: tuple[str, ...]) -> dict[str, GateReport]:
    (((states,),),) = extract(target, off, OUTPUTS, [[SHARED[1]]])
    outputs, _ = Reference(target, range(8)).forward(SHARED[1])
    report = rotary.check(states, outputs[:, list(OUTPUTS)])
    return {report.gate: report}


def every_layer(reference: Reference, tokens: list[int], outputs: Any) -> Any:
    """[S, N + 1, H]: the input of each layer and the last one's output, so that the index is vLLM's id."""
    first = reference.model.model.embed_tokens(torch.tensor(tokens)).detach()
    return torch.cat([first.unsqueeze(1), outputs], dim=1)


def extract(
    target: str, off: tuple[str, ...], layers: Sequence[int], *groups: Sequence[Prompts], hasher: bool = False
) -> list[list[list[Any]]]:
    """Starts the engine once and runs groups of batches: states [R, L, H] of each prompt, whatever R is."""
    for name in [name for name in sys.modules if name.startswith("speculators.data_generation")]:
        del sys.modules[name]
    os.environ["EYAS_SWITCHES"] = json.dumps({"off": off})
    activate("driver", parse(os.environ["EYAS_SWITCHES"]), lambda applied: None)
    if hasher:
        give_block_hashes(generator_module())
    with Engine(Path(target), layers, 600, 1, "float32") as engine:
        return [[run(engine, batch) for batch in group] for group in groups]


def run(engine: Engine, batch: Prompts) -> list[Any]:
    results = engine._generator.generate([list(p) for p in batch])  # Engine.generate would refuse missing rows
    return [torch.stack(result["hidden_states"], dim=1) for result in results]


def give_block_hashes(module: Any) -> None:
    """The obvious mend of the assertion in cache_full_blocks: prefix caching begins to work."""
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core import kv_cache_utils

    request, function = module.Request, get_hash_fn_by_name("sha256")
    kv_cache_utils.init_none_hash(function)
    block_hasher = kv_cache_utils.get_request_block_hasher(16, function)
    module.Request = lambda **given: request(block_hasher=block_hasher, **given)


if __name__ == "__main__":
    main()
