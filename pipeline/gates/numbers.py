"""How near two tensors of hidden states must be to count as the same.

Errors are taken row by row and layer by layer, as a share of that row's own size: real targets have a few rows with
values a thousand times those of the others, beside which any fault would look small.
"""

from __future__ import annotations

from typing import Any

ALLOWED = {"float32": 1e-3, "float16": 1e-2, "bfloat16": 4e-2}
"""Root mean square of the difference over that of the row. Two engines, or two batches, order their sums differently;
measured between vLLM and transformers on tiny targets: 3e-6 in float32, 2e-2 in bfloat16."""

EIGHT_BITS = 0.15
"""The same between states and what 8-bit floats with one scale a token keep of them: half a step of three bits of
mantissa, and for a layer of small values beside one of large ones more."""


def allowed(states: Any, reference: Any) -> float:
    """The error allowed between two tensors: that of the coarser of their number formats."""
    return max(ALLOWED[str(tensor.dtype).removeprefix("torch.")] for tensor in (states, reference))


def row_errors(states: Any, reference: Any) -> Any:
    """Error of each row, [S], of its worst layer: `states` [S, L, H] against `reference` of that shape, or of one row.

    A row of NaN counts as infinitely wrong.
    """
    wide, true = states.float(), reference.float()
    size = true.norm(dim=2).clamp_min(1e-30)
    return ((wide - true).norm(dim=2) / size).nan_to_num(float("inf")).amax(1)
