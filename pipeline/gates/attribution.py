"""Gate `attribution`: each sample extracted alone equals the same sample extracted in a batch.

The batch should hold shared prefixes and be longer than one step of the engine takes. speculators' generator cuts what
was captured by the lengths of the prompts, so the first sample that lost rows also shifts those behind it: the places
of its rows tell what happened. Rows missing in front came from the prefix cache; rows missing behind were cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.gates.numbers import row_differences, tolerance
from pipeline.gates.report import GateReport, failed, passed

GATE = "attribution"


def check(alone: Sequence[Any], batched: Sequence[Any]) -> GateReport:
    """`alone[i]` [S, L, H] is sample i by itself, `batched[i]` [R, L, H] what the batch gave for it."""
    allowed = [tolerance(b, a) for a, b in zip(alone, batched, strict=True)]
    wrong = [i for i in range(len(alone)) if _own_rows(alone[i], batched[i], allowed[i]) != len(alone[i])]
    wrong += [i for i in range(len(alone)) if i not in wrong and len(batched[i]) != len(alone[i])]
    if not wrong:
        worst = max(float(row_differences(b, a).max()) for a, b in zip(alone, batched, strict=True))
        rows = sum(map(len, alone))
        return passed(
            GATE, f"{len(alone)} samples ({rows} rows) alone and in a batch differ by {worst:.2g} ({max(allowed):.2g})."
        )
    first = min(wrong)
    fault, sentence = _explain(alone, first, batched[first], allowed[first])
    return failed(GATE, fault, f"{len(wrong)} of {len(alone)} samples differ in a batch; {sentence}")


def _explain(alone: Sequence[Any], number: int, found: Any, allowed: float) -> tuple[str, str]:
    """(fault, sentence) for the first sample that is wrong."""
    own = alone[number]
    told = f"sample {number} of {len(own)} rows"
    if not len(found):
        return "shifted", f"{told} has none: others got them."
    if len(found) == len(own) and _in_place(own, found, allowed):
        worst = float(row_differences(found, own).max())
        return "numbers differ", f"{told} has them in place, but they differ by {worst:.2g} ({allowed:.2g} allowed)."
    kept = _own_rows(own, found, allowed)
    if kept:
        return "truncated", f"{told} ends after {kept} of its own: the others were never captured."
    skipped = _place(own, found[0], allowed)
    if skipped:
        return (
            "prefix-cache hit",
            f"{told} begins with its row {skipped}: those before came from the prefix cache and were never captured.",
        )
    other = next((i for i, a in enumerate(alone) if i != number and _place(a, found[0], allowed) is not None), None)
    if other is not None:
        return "shifted", f"{told} begins with a row of sample {other}."
    return "shifted", f"{told} begins with a row of no sample of the batch."


def _own_rows(own: Any, found: Any, allowed: float) -> int:
    """How many rows from the first on are the sample's own."""
    common = min(len(own), len(found))
    if not common:
        return 0
    wrong = (row_differences(found[:common], own[:common]) > allowed).nonzero()
    return int(wrong[0]) if len(wrong) else common


def _place(own: Any, row: Any, allowed: float) -> int | None:
    """Where a row stands among a sample's; None when it is not there."""
    differences = row_differences(own, row.unsqueeze(0))
    place = int(differences.argmin())
    return place if float(differences[place]) <= allowed else None


def _in_place(own: Any, found: Any, allowed: float) -> bool:
    """Whether the rows that differ are still nearer to their own than to their neighbours': only the numbers differ."""
    if len(own) < 3:
        return False
    here = row_differences(found[1:-1], own[1:-1])
    before, after = row_differences(found[1:-1], own[:-2]), row_differences(found[1:-1], own[2:])
    nearer = ((here < before) & (here < after))[here > allowed]
    return bool(len(nearer)) and bool(nearer.float().mean() > 0.9)
