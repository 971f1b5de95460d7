"""Gate `attribution`: each sample extracted alone equals the same sample extracted in a batch.

The batch should hold shared prefixes and be longer than one step of the engine takes. speculators' generator cuts what
was captured by the lengths of the prompts, so the first sample that lost rows also shifts those behind it: the places
of its rows tell what happened. Rows missing in front came from the prefix cache; rows missing behind were cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.gates.numbers import Limits, limits, row_errors
from pipeline.gates.report import GateReport, failed, passed

GATE = "attribution"
RUN = 8
"""Rows in a row by which those of another sample are known: wrong numbers may bring a single row near one of them."""


def check(alone: Sequence[Any], batched: Sequence[Any], names: Sequence[str] = (), least: float = 0.0) -> GateReport:
    """`alone[i]` [S, L, H] is sample i by itself, `batched[i]` [R, L, H] what the batch gave for it, in its order.

    `names` are what the samples are called, `sample 3`; `least` is an error that is allowed at least.
    """
    names = names or [f"sample {i}" for i in range(len(alone))]
    pairs = list(zip(alone, batched, strict=True))
    bounds = limits(least, *(tensor for pair in pairs for tensor in pair))
    limit = bounds.row
    wrong = [
        i for i, (own, found) in enumerate(pairs) if len(own) != len(found) or bounds.exceeded(row_errors(found, own))
    ]
    if not wrong:
        worst = max(float(row_errors(found, own).max()) for own, found in pairs)
        rows = sum(map(len, alone))
        return passed(
            GATE,
            f"{len(pairs)} samples ({rows} rows) alone and in a batch differ by {worst:.1e} ({limit:.0e} allowed).",
        )
    fault, sentence = _explain(alone, wrong[0], batched[wrong[0]], bounds, names)
    return failed(GATE, fault, f"{len(wrong)} of {len(pairs)} samples differ in a batch; {sentence}")


def _explain(alone: Sequence[Any], number: int, found: Any, bounds: Limits, names: Sequence[str]) -> tuple[str, str]:
    """(fault, sentence) for the first sample that is wrong."""
    own = alone[number]
    limit = bounds.typical  # rows of others may be near to one's own in a target that has hardly learnt
    told = f"{names[number]} of {len(own)} rows"
    if not len(found):
        return "shifted", f"{told} has none: others got them."
    if len(found) == len(own) == _own_rows(own, found, bounds.row) and _in_place(own, found, limit):
        typical = float(row_errors(found, own).median())
        return "numbers differ", f"{told} has them in place, but half of them differ by {typical:.1e} or more."
    if len(found) == len(own) and _in_place(own, found, limit):
        worst = float(row_errors(found, own).max())
        return "numbers differ", f"{told} has them in place, but they differ by {worst:.1e} ({limit:.0e} allowed)."
    if len(found) == len(own) and (wrong := _wrong_layers(own, found, limit)) and len(wrong) < own.shape[1]:
        worst = float(row_errors(found, own).max())
        return (
            "numbers differ",
            f"{told} has its own rows in some of the captured layers, and in those at {wrong} they differ by "
            f"{worst:.1e} ({limit:.0e} allowed).",
        )
    kept = _own_rows(own, found, limit)
    if kept == len(own):
        return "rows too many", f"{told} has {len(found) - kept} more behind its own."
    if kept < len(found):
        other = _holder(alone, number, found[kept:], kept, limit)
        if other is not None:
            return "shifted", f"{told} has the rows of {names[other]}."
    if kept:
        if len(found) == len(own) and not any(_has_run(other, found[kept:], limit) for other in alone):
            return "numbers differ", f"{told} has {kept} of its own, and then rows that are no sample's."
        return "truncated", f"{told} ends after {kept} of its own: the others were never captured."
    skipped = _place(own, found[0], limit)
    rest = len(own) - (skipped or 0)
    in_a_row = _own_rows(own[len(own) - rest :], found[:rest], limit) == min(rest, len(found))
    if skipped and in_a_row and (rest > 1 or len(found) == rest):
        return (
            "prefix-cache hit",
            f"{told} begins with its row {skipped}: those before came from the prefix cache and were never captured.",
        )
    return "shifted", f"{told} begins with a row that is not its own."


def _wrong_layers(own: Any, found: Any, limit: float) -> list[int]:
    """The captured layers that differ somewhere. What moves rows moves them in all layers."""
    layers = range(own.shape[1])
    return [k for k in layers if float(row_errors(found[:, k : k + 1], own[:, k : k + 1]).max()) > limit]


def _own_rows(own: Any, found: Any, limit: float) -> int:
    """How many rows from the first on are the sample's own."""
    common = min(len(own), len(found))
    if not common:
        return 0
    wrong = (row_errors(found[:common], own[:common]) > limit).nonzero()
    return int(wrong[0]) if len(wrong) else common


def _holder(alone: Sequence[Any], number: int, rows: Any, place: int, limit: float) -> int | None:
    """Another sample that has these rows in the same place; what precedes them may be a prefix that both have."""
    for i, other in enumerate(alone):
        if i != number and len(other) > place:
            count = min(RUN, len(rows), len(other) - place)
            if _own_rows(other[place:], rows[:count], limit) == count:
                return i
    return None


def _has_run(other: Any, rows: Any, limit: float) -> bool:
    """Whether the first of these rows follow one another in a sample."""
    count = min(RUN, len(rows), len(other))
    near = (row_errors(other, rows[:1]) <= limit).nonzero().flatten().tolist()
    places = (place for place in near if place + count <= len(other))
    return count > 0 and any(_own_rows(other[place:], rows[:count], limit) == count for place in places)


def _place(own: Any, row: Any, limit: float) -> int | None:
    """Where a row stands among a sample's; None when it is not there."""
    errors = row_errors(own, row.unsqueeze(0))
    place = int(errors.argmin())
    return place if float(errors[place]) <= limit else None


def _in_place(own: Any, found: Any, limit: float) -> bool:
    """Whether the rows that differ are still nearer to their own than to their neighbours': only the numbers differ."""
    if len(own) < 3:
        return False
    here = row_errors(found[1:-1], own[1:-1])
    before, after = row_errors(found[1:-1], own[:-2]), row_errors(found[1:-1], own[2:])
    nearer = ((here < before) & (here < after))[here > limit]
    return bool(len(nearer)) and bool(nearer.float().mean() > 0.9)
