"""Gate `finite`: no NaN, no infinity, no layer and no row of nothing but zeros (as hybrid models have given)."""

from __future__ import annotations

from typing import Any

from pipeline.gates.report import GateReport, failed, passed

GATE = "finite"


def check(states: Any, first: int = 0) -> GateReport:
    """`states` [S, L, H]; `first` is the number of the first of these rows in their sample."""
    import torch

    broken = ~torch.isfinite(states)
    if bool(broken.any()):
        rows = broken.flatten(1).any(1).nonzero().flatten()
        layer = int(broken.any(0).any(1).nonzero()[0])
        return failed(
            GATE,
            "NaN",
            f"{int(broken.sum())} values in {len(rows)} of {len(states)} rows are NaN or infinite, the first in row "
            f"{first + int(rows[0])}, layer {layer} of those captured.",
        )
    empty = (states == 0).all(2)  # [S, L]
    if bool(empty.any()):
        row, layer = (int(i) for i in empty.nonzero()[0])
        whole = int(empty.all(0).sum())
        return failed(
            GATE,
            "zeros",
            f"{int(empty.sum())} of {empty.numel()} states are nothing but zeros ({whole} whole layers), the first in "
            f"row {first + row}, layer {layer} of those captured.",
        )
    return passed(GATE, f"{states.numel()} values are finite, up to {float(states.abs().max()):.3g}.")
