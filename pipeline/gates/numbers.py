"""How near two tensors of hidden states must be to count as the same.

Errors are taken row by row and layer by layer, as a share of that row's own size: real targets have a few rows with
values a thousand times those of the others, beside which any fault would look small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ALLOWED = {"float32": 1e-3, "float16": 5e-2, "bfloat16": 0.25}
"""Root mean square of the difference over that of the row, of the worst row. Two engines, or two batches, order their
sums differently, and single tokens are sensitive to it: measured against 32-bit floats, 8e-6 in float32 and 0.076 in
bfloat16 on SmolLM2 (30 layers), 1e-2 in bfloat16 on the tiny targets. Another token's row differs by about 1."""
TYPICAL = {"float32": 1e-3, "float16": 1e-2, "bfloat16": 6e-2}
"""The same of the median row: measured 0.018 in bfloat16 on SmolLM2."""
EIGHT_BITS = 0.15
"""The same between states and what 8-bit floats with one scale a token keep of them: half a step of three bits of
mantissa, and for a layer of small values beside one of large ones more. Measured, worst row and median: 0.034, 0.029 on
tiny targets, 0.029, 0.027 on random weights 4096 wide, 0.051, 0.031 on SmolLM2, whose values reach 25,000."""


@dataclass(frozen=True)
class Limits:
    """Errors that are allowed."""

    row: float
    typical: float
    """Of the median row."""

    def exceeded(self, errors: Any) -> bool:
        """`errors` [S] as `row_errors` gives them."""
        return bool(float(errors.max()) > self.row or float(errors.median()) > self.typical)


def limits(least: float, *tensors: Any) -> Limits:
    """What is allowed between tensors: by the coarsest of their number formats, and `least` at least."""
    formats = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors]
    row, typical = (max([least, *(known[name] for name in formats)]) for known in (ALLOWED, TYPICAL))
    return Limits(row, typical)


def row_errors(states: Any, reference: Any) -> Any:
    """Error of each row, [S], of its worst layer: `states` [S, L, H] against `reference` of that shape, or of one row.

    A row of NaN counts as infinitely wrong.
    """
    wide, true = states.float(), reference.float()
    size = true.norm(dim=2).clamp_min(1e-30)
    return ((wide - true).norm(dim=2) / size).nan_to_num(float("inf")).amax(1)
