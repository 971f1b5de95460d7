"""Run in the seed environment: starts the engine once in 32-bit floats and compares every row with transformers.

`compare.py TARGET TENSOR_PARALLEL [PATCH THAT IS OFF…]` prints `RESULT {batch: {"rows", "expected", "size",
"diff"}}`, `diff` being the largest absolute difference and `size` the largest value for each captured layer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

OUTPUTS = (1, 3, 4, 7)
"""Indices of layer outputs, as the default rule chooses them for 8 layers."""


def batches(tensor_parallel: int) -> Iterator[tuple[str, list[list[int]]]]:
    def prompt(length: int, seed: int) -> list[int]:
        return [(7 * i * i + 13 * i + 101 * seed) % 900 + 10 for i in range(length)]

    prefix = prompt(64, 1)
    yield "shared prefix", [prefix + prompt(30, 2), prefix + prompt(45, 3), prefix]
    yield "repeated prompts", [prompt(50, 4), prompt(50, 4), prefix + prompt(30, 2)]
    if tensor_parallel == 1:  # slow on two ranks, and the ranks see the same steps
        yield "above max_num_batched_tokens", [prompt(500, seed) for seed in range(20)]
    yield "40 requests", [prompt(20 + seed, seed) for seed in range(40)]
    yield "single tokens between", [prompt(1, 5), prompt(33, 6), prompt(1, 7), prompt(100, 8), prompt(2, 9)]


def main() -> None:
    target, tensor_parallel, *off = sys.argv[1:]
    os.environ["EYAS_SWITCHES"] = json.dumps({"off": off})
    from compat.activate import activate
    from compat.switches import parse
    from pipeline.engine.hidden_states import Engine

    activate("driver", parse(os.environ["EYAS_SWITCHES"]), lambda applied: None)
    with Engine(Path(target), OUTPUTS, 600, int(tensor_parallel), "float32") as engine:
        limit = engine._generator.vllm_config.scheduler_config.max_num_batched_tokens
        states = {name: engine.generate(prompts) for name, prompts in batches(int(tensor_parallel))}
    reference = _Reference(target)
    result = {}
    for name, prompts in batches(int(tensor_parallel)):
        pairs = [(s, reference.states(p)) for s, p in zip(states[name], prompts, strict=True)]
        result[name] = {
            "tokens": sum(map(len, prompts)),
            "rows": [len(s) for s, _ in pairs],
            "expected": [len(p) for p in prompts],
            "size": [max(float(r[:, k].abs().max()) for _, r in pairs) for k in range(len(OUTPUTS))],
            "diff": [max(float((s[:, k] - r[:, k]).abs().max()) for s, r in pairs) for k in range(len(OUTPUTS))],
        }
    print("RESULT " + json.dumps({"limit": limit, "batches": result}), flush=True)


class _Reference:
    """A plain transformers forward: the outputs of the captured decoder layers, before the final norm."""

    def __init__(self, target: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._torch = torch
        self._model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
        self._captured: dict[int, object] = {}
        for index in OUTPUTS:
            self._model.model.layers[index].register_forward_hook(self._keep(index))

    def _keep(self, index: int):  # type: ignore[no-untyped-def]
        def hook(module: object, arguments: object, output: object) -> None:
            self._captured[index] = output[0] if isinstance(output, tuple) else output

        return hook

    def states(self, prompt: list[int]):  # type: ignore[no-untyped-def]
        with self._torch.no_grad():
            self._model(self._torch.tensor([prompt]))
        hidden = self._model.config.hidden_size
        return self._torch.stack([self._captured[i].reshape(-1, hidden) for i in OUTPUTS], dim=1)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
