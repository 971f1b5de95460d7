"""Run in the current pair's environment: extracts with vLLM's own connector and compares with transformers.

`native.py TARGET TENSOR_PARALLEL [PATCH THAT IS OFF…]` prints `RESULT {"limit", "batches": {batch: {"rows", "expected",
"diff", "size", "rare", "fault", "sentence"}}}`; `rare` counts the rows that differ by more than TOLERANCE, the last two
are what the gate `rotary` says of its longest sample.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

IDS = (2, 4, 5, 8)
"""vLLM's ids, as the default rule chooses them for 8 layers, and the last layer's output."""
TOLERANCE = 1e-4
"""Largest difference between two 32-bit forwards as a share of the largest value; measured: below 1e-6, and 3e-5 with
a mixture of experts."""


def batches() -> dict[str, list[list[int]]]:
    def prompt(length: int, seed: int) -> list[int]:
        return [(7 * i * i + 13 * i + 101 * seed) % 900 + 10 for i in range(length)]

    prefix = prompt(64, 1)
    return {
        "shared prefix": [prefix + prompt(30, 2), prefix + prompt(45, 3), prefix],
        "repeated prompts": [prompt(50, 4), prompt(50, 4), prompt(1, 5), prompt(100, 8), prompt(2, 9)],
        "above max_num_batched_tokens": [prompt(560 - seed, seed) for seed in range(20)],
        "40 requests": [prompt(20 + seed, seed) for seed in range(40)],
    }


def main() -> None:
    target, tensor_parallel, *off = sys.argv[1:]
    os.environ["EYAS_SWITCHES"] = json.dumps({"off": off})
    from pipeline.engine.native import Engine

    with Engine(Path(target), IDS, 600, int(tensor_parallel), "float32") as engine:
        limit = engine._llm.llm_engine.vllm_config.scheduler_config.max_num_batched_tokens
        states = {name: engine.generate(prompts) for name, prompts in batches().items()}
    from reference import Reference

    from pipeline.gates import rotary

    reference = Reference(target, [k - 1 for k in IDS])
    result = {}
    for name, prompts in batches().items():
        pairs = [(s, reference.forward(p)[0]) for s, p in zip(states[name], prompts, strict=True)]
        verdict = rotary.check(*max(pairs, key=lambda pair: len(pair[0])))
        result[name] = {
            "tokens": sum(map(len, prompts)),
            "rows": [len(s) for s, _ in pairs],
            "expected": [len(p) for p in prompts],
            "size": [max(float(r[:, k].abs().max()) for _, r in pairs) for k in range(len(IDS))],
            "diff": [max(float((s[:, k] - r[:, k]).abs().max()) for s, r in pairs) for k in range(len(IDS))],
            "rare": [
                sum(int(((s[:, k] - r[:, k]).abs().amax(1) > TOLERANCE * r[:, k].abs().max()).sum()) for s, r in pairs)
                for k in range(len(IDS))
            ],
            "fault": verdict.fault,
            "sentence": verdict.sentence,
        }
    print("RESULT " + json.dumps({"limit": limit, "batches": result}), flush=True)


if __name__ == "__main__":
    main()
