"""Run in a stage environment: has a backend extract in 32-bit floats, and compares every row with transformers.

`compare.py JSON`, of `{"backend", "targets": [folder…], "tensor_parallel": n, "off": [patch…], "long": bool}`, starts
the engine once for each target and prints `RESULT {"target", "limit", "samples", "rows", "batches", "diff", …}` for
it: `batches` are the tokens of each, `diff` is the largest absolute difference of each captured layer, `fault` what the
gate `rotary` says of the longest prompt; the others are told in `ties.py`. A prompt with other rows than tokens raises.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.layers import Layers

LAYERS = Layers((2, 4, 5, 8))
"""As the default rule chooses them for 8 layers, and the last layer's output."""
LONGEST = 600
TOLERANCE = 2e-5
"""Largest difference between two 32-bit forwards, of a layer's largest value; measured: below 5e-6."""

Batches = dict[str, list[list[int]]]


def batches(long: bool) -> Iterator[tuple[str, list[list[int]]]]:
    def prompt(length: int, seed: int) -> list[int]:
        return [(7 * i * i + 13 * i + 101 * seed) % 900 + 10 for i in range(length)]

    prefix = prompt(64, 1)
    yield "shared prefix", [prefix + prompt(30, 2), prefix + prompt(45, 3), prefix]
    yield "repeated prompts", [prompt(50, 4), prompt(50, 4), prefix + prompt(30, 2)]
    if long:
        yield "above max_num_batched_tokens", [prompt(560 - seed, seed) for seed in range(20)]
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
        found = _result(asked["backend"], Path(target), given, asked["tensor_parallel"])
        print("RESULT " + json.dumps(found), flush=True)


def _result(name: str, target: Path, given: Batches, tensor_parallel: int) -> dict[str, Any]:
    import torch
    from reference import Reference
    from ties import Explained, Pair, Routers

    from pipeline.engine import backend
    from pipeline.gates import rotary

    with (
        tempfile.TemporaryDirectory() as scratch,
        backend.engine(name, target, LAYERS, LONGEST, tensor_parallel, "float32", Path(scratch)) as engine,
    ):
        limit = engine.step_tokens
        states = {batch: engine.generate(prompts) for batch, prompts in given.items()}
    routers = Routers(Reference(str(target), LAYERS.output_indices))
    pairs = [
        Pair(prompt, found, routers.forward(prompt), dict(routers.margins))
        for batch, prompts in given.items()
        for prompt, found in zip(prompts, states[batch], strict=True)
    ]
    longest = max(pairs, key=lambda pair: len(pair.prompt))
    diffs = [(pair.states - pair.expected).abs().amax((0, 2)) for pair in pairs]
    return {
        "target": str(target),
        "limit": limit,
        "samples": len(pairs),
        "rows": sum(len(pair.states) for pair in pairs),
        "batches": {batch: sum(map(len, prompts)) for batch, prompts in given.items()},
        "diff": torch.stack(diffs).amax(0).tolist(),
        **Explained(routers, pairs, TOLERANCE).told(),
        "fault": rotary.check(longest.states, longest.expected).fault,
    }


if __name__ == "__main__":
    main()
