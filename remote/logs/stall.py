"""Bars that stand still: from the gaps between their steps, never from the graphics memory, which a load fills at once.

What a log proves is a least gap: from the first time shown after the last step to the last time shown at all. The
bar's own clock proves the gaps that ended, and the caller's clock those that go on while nothing is written.
"""

from __future__ import annotations

from remote.logs.findings import Progress, Stall
from remote.logs.pace import STALL_FACTOR, Pace
from remote.logs.phases import LOADERS

AFTER_SECONDS = 120.0
"""Work behind 100 % has no steps; it is said to last once it takes so long."""

_LOADING = (
    "The bar counts files read, not weights placed: look at the storage; 8 to 16 loader threads help on a network."
)
_ELSE = "Look at what the process does (py-spy dump), and for a worker whose own error was never reported."


def ended_stalls(bar: Progress, pace: Pace) -> list[Stall]:
    """The gaps after which the bar moved again."""
    return [
        _stall(bar, done, gap, usual, line, f"no step for {span(gap)} after {_place(done, pace.total)}", ended=True)
        for done, gap, usual, line in pace.stalls
    ]


def running_stall(bar: Progress, pace: Pace, gap: float, phase: str) -> Stall | None:
    """The gap that the bar stands in now, at least `gap` seconds; `phase`: what goes on at 100 %."""
    usual = pace.usual_gap or 0.0
    if pace.total is not None and pace.done >= pace.total:
        if not phase or bar.kind not in LOADERS or gap < max(AFTER_SECONDS, STALL_FACTOR * usual):
            return None
        return _stall(bar, pace.done, gap, usual, pace.line, f"100 % read, then {phase} for at least {span(gap)}")
    if not pace.is_stall(gap):
        return None
    told = f"no step for at least {span(gap)} after {_place(pace.done, pace.total)}"
    return _stall(bar, pace.done, gap, usual, pace.line, told)


def _stall(bar: Progress, done: int, gap: float, usual: float, line: int, told: str, ended: bool = False) -> Stall:
    name = f"{bar.worker}: {bar.label}" if bar.worker else bar.label
    return Stall(
        text=f"{name or 'A bar'}: {told}; usually {span(usual)} lie between two",
        kind=bar.kind,
        done=done,
        total=bar.total,
        gap_s=gap,
        usual_s=usual,
        worker=bar.worker,
        label=bar.label,
        ended=ended,
        line=line,
        remedy=_LOADING if bar.kind in LOADERS else _ELSE,
    )


def _place(done: int, total: int | None) -> str:
    return f"{done} of {total}" if total is not None else str(done)


def span(seconds: float) -> str:
    """`12 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
