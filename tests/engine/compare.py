"""Run in the extract stage's environment: extracts in 32-bit floats and compares every row with transformers.

`compare.py JSON`, of `{"targets": [folder…], "tensor_parallel": n, "off": [patch…], "long": bool}`, starts the engine
once for each target and prints `RESULT {"target", "limit", "batches": {name: {"rows", "expected", "size", "diff"}}}`,
`diff` being the largest absolute difference and `size` the largest value for each captured layer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUTPUTS = (1, 3, 4, 7)
"""Indices of layer outputs, as the default rule chooses them for 8 layers."""

Batches = dict[str, list[list[int]]]


def batches(long: bool) -> Iterator[tuple[str, list[list[int]]]]:
    def prompt(length: int, seed: int) -> list[int]:
        return [(7 * i * i + 13 * i + 101 * seed) % 900 + 10 for i in range(length)]

    prefix = prompt(64, 1)
    yield "shared prefix", [prefix + prompt(30, 2), prefix + prompt(45, 3), prefix]
    yield "repeated prompts", [prompt(50, 4), prompt(50, 4), prefix + prompt(30, 2)]
    if long:
        yield "above max_num_batched_tokens", [prompt(500, seed) for seed in range(20)]
    yield "40 requests", [prompt(20 + seed, seed) for seed in range(40)]
    yield "single tokens between", [prompt(1, 5), prompt(33, 6), prompt(1, 7), prompt(100, 8), prompt(2, 9)]


def main() -> None:
    asked = json.loads(sys.argv[1])
    os.environ["EYAS_SWITCHES"] = json.dumps({"off": asked["off"]})
    from compat.activate import activate
    from compat.switches import parse

    activate("driver", parse(os.environ["EYAS_SWITCHES"]), lambda applied: None)
    given = dict(batches(asked["long"]))
    for target in asked["targets"]:
        print("RESULT " + json.dumps(_result(Path(target), given, asked["tensor_parallel"])), flush=True)


def _result(target: Path, given: Batches, tensor_parallel: int) -> dict[str, Any]:
    from reference import Reference

    from pipeline.engine.generator import Engine

    with Engine(target, OUTPUTS, 600, tensor_parallel, "float32") as engine:
        limit = engine._generator.vllm_config.scheduler_config.max_num_batched_tokens
        states = {name: engine.generate(prompts) for name, prompts in given.items()}
    reference = Reference(str(target), OUTPUTS)
    compared = {}
    for name, prompts in given.items():
        pairs = [(s, reference.forward(p)[0]) for s, p in zip(states[name], prompts, strict=True)]
        compared[name] = {
            "tokens": sum(map(len, prompts)),
            "rows": [len(s) for s, _ in pairs],
            "expected": [len(p) for p in prompts],
            "size": [max(float(r[:, k].abs().max()) for _, r in pairs) for k in range(len(OUTPUTS))],
            "diff": [max(float((s[:, k] - r[:, k]).abs().max()) for s, r in pairs) for k in range(len(OUTPUTS))],
        }
    return {"target": str(target), "limit": limit, "batches": compared}


if __name__ == "__main__":
    main()
