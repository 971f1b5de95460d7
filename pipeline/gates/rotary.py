"""Gate `rotary`: the states equal a reference forward in numbers.

A wrong rotation of queries and keys leaves the first token alone, for it can only look at itself, and spoils every
later one: that tells it from other differences.
"""

from __future__ import annotations

from typing import Any

from pipeline.gates.numbers import limits, row_errors
from pipeline.gates.report import GateReport, failed, passed

GATE = "rotary"


def check(states: Any, reference: Any, least: float = 0.0) -> GateReport:
    """`states` and `reference` [S, L, H], the same layers of the same tokens; S at least 2. `least` is an error that is
    allowed at least."""
    errors = row_errors(states, reference)
    limit = limits(least, states, reference)
    worst, first = float(errors.max()), float(errors[0])
    figures = (
        f"{worst:.1e} of their size over {len(states)} rows ({limit.row:.0e} allowed), half of them by "
        f"{float(errors.median()):.1e} or less ({limit.typical:.0e})"
    )
    if not limit.exceeded(errors):
        return passed(GATE, f"The states differ from the reference by {figures}.")
    later = float((errors[1:] > limit.typical).float().mean())
    if first <= limit.typical and later > 0.5:
        return failed(
            GATE,
            "rotary",
            f"The first token's states are right ({first:.0e}) and {later:.0%} of the others are not: positions are "
            f"rotated wrongly. They differ from the reference by {figures}.",
        )
    return failed(
        GATE, "numbers differ", f"The states differ from the reference by {figures}, the first by {first:.0e}."
    )
