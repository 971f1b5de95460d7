"""Gate `rotary`: the states equal a reference forward in numbers.

A wrong rotation of queries and keys leaves the first token alone, for it can only look at itself, and spoils every
later one: that tells it from other differences.
"""

from __future__ import annotations

from typing import Any

from pipeline.gates.numbers import row_differences, tolerance
from pipeline.gates.report import GateReport, failed, passed

GATE = "rotary"


def check(states: Any, reference: Any) -> GateReport:
    """`states` and `reference` [S, L, H], the same layers of the same tokens; S at least 2."""
    differences = row_differences(states, reference)
    allowed = tolerance(states, reference)
    worst, first = float(differences.max()), float(differences[0])
    figures = f"{worst:.2g} at most over {len(states)} rows ({allowed:.2g} allowed)"
    if worst <= allowed:
        return passed(GATE, f"The states differ from the reference by {figures}.")
    later = float((differences[1:] > allowed).float().mean())
    if first <= allowed and later > 0.5:
        return failed(
            GATE,
            "rotary",
            f"The first token's states are right ({first:.2g}) and {later:.0%} of the others are not: positions are "
            f"rotated wrongly. They differ from the reference by {figures}.",
        )
    return failed(
        GATE, "numbers differ", f"The states differ from the reference by {figures}, the first by {first:.2g}."
    )
