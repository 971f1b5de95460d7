"""How near two tensors of hidden states must be to count as the same."""

from __future__ import annotations

from typing import Any

RELATIVE = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 8e-2}
"""Largest difference as a share of the largest value. Two engines, or two batches, order their sums differently;
measured against transformers: 2e-6 of the largest value in float32, 3e-2 in bfloat16."""


def tolerance(states: Any, reference: Any) -> float:
    """Largest absolute difference allowed between `states` and `reference`, from the coarser of their number formats
    and the largest finite value of the reference."""
    share = max(RELATIVE[str(t.dtype).removeprefix("torch.")] for t in (states, reference))
    size = float(reference.float().nan_to_num(0.0, 0.0, 0.0).abs().max()) if reference.numel() else 0.0
    return share * size


def row_differences(states: Any, reference: Any) -> Any:
    """Largest absolute difference of each row, [S]: over everything behind the first dimension."""
    return (states.float() - reference.float()).flatten(1).abs().amax(1).nan_to_num(float("inf"))
