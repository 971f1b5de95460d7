"""A sweep as a table: a point a row, what it varies, how far it is, what came of it. No I/O, no textual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from console.curves import Group, Line, figure, sparkline
from console.reports import sanitise_lines
from console.words import MISSING, STAGE_GLYPHS, many
from remote.views import PointView, SweepView
from remote.wire import to_wire

LOSS, ACCEPTANCE = ("val/loss", "loss"), ("val/acceptance", "acceptance")
COURSE = 32


@dataclass(frozen=True)
class PointRow:
    """A point in words."""

    number: int
    point: PointView
    values: tuple[str, ...]
    where: str
    """State, and the stage that it is of while that says something."""
    loss: float | None
    acceptance: float | None
    """As training simulated it, on held-out samples where there are some."""
    served: float | None
    """Mean over the sets of prompts."""
    untrained: float | None
    best: bool = False


def axes(sweep: SweepView) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for point in sweep.points for name in point.values))


def rows(sweep: SweepView) -> tuple[PointRow, ...]:
    names = axes(sweep)
    made = [_row(number, point, names) for number, point in enumerate(sweep.points, 1)]
    best = max(made, key=_merit, default=None)
    judged = sum(_merit(row) > (0.0, 0.0) for row in made) > 1
    return tuple(PointRow(**{**vars(row), "best": judged and row is best}) for row in made)


def _merit(row: PointRow) -> tuple[float, float]:
    """What is served counts before what was simulated."""
    return row.served or 0.0, row.acceptance or 0.0


def _row(number: int, point: PointView, names: tuple[str, ...]) -> PointRow:
    where = point.state
    if point.error:
        where = "did not begin" if point.state == "waiting" else point.state
    elif point.state in ("running", "failed", "stopped", "lost") and point.stage:
        where = f"{point.stage} {point.state}"
        if point.progress and point.progress.total:
            where = f"{point.stage} {point.progress.done / point.progress.total:.0%}"
    return PointRow(
        number=number,
        point=point,
        values=tuple(f"{point.values[name]:g}" if name in point.values else MISSING for name in names),
        where=where,
        loss=_first(point, LOSS),
        acceptance=_first(point, ACCEPTANCE),
        served=_mean(point, "served"),
        untrained=_mean(point, "untrained"),
    )


def _first(point: PointView, names: tuple[str, ...]) -> float | None:
    return next((point.metrics[name] for name in names if name in point.metrics), None)


def _mean(point: PointView, kind: str) -> float | None:
    found = [v for name, v in point.metrics.items() if name.startswith("acceptance/") and name.endswith(f"/{kind}")]
    return sum(found) / len(found) if found else None


def group(sweep: SweepView) -> Group | None:
    """The points' curves of one figure as one group to plot; None while no point has one."""
    name = next((point.curve for point in sweep.points if point.curve), "")
    lines = tuple(
        Line(f"point_{number}", point.steps, point.course, True, len(point.steps), 0, point.course[-1])
        for number, point in enumerate(sweep.points, 1)
        if point.curve == name and point.course
    )
    return Group(name, lines) if lines else None


def headline(sweep: SweepView) -> str:
    done = sum(point.state == "done" for point in sweep.points)
    at_once = f", {sweep.slots} at a time" if sweep.slots > 1 else ""
    stopped = ", stopped" if sweep.stopped else ""
    return f"{done} of {many(len(sweep.points), 'point')} done{at_once}{stopped}"


def sweep_json(sweep: SweepView) -> dict[str, Any]:
    best = next((row.point.run for row in rows(sweep) if row.best), None)
    return {"best": best, **to_wire(sweep)}


def sweep_text(sweep: SweepView) -> str:
    names, made = axes(sweep), rows(sweep)
    widths = [max(len(name), *(len(row.values[place]) for row in made)) for place, name in enumerate(names)]
    head = "  ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    lines = [f"sweep {sweep.sweep} over the data of run {sweep.base}: {headline(sweep)}"]
    lines.append(f"       {head}  {'state':<16} {'loss':>7} {'accept':>7} {'served':>7} {'untrained':>9}")
    for row in made:
        lines += _line(row, widths)
    return sanitise_lines(lines)


def _line(row: PointRow, widths: list[int]) -> Iterator[str]:
    glyph = STAGE_GLYPHS.get(row.point.state, ("?", ""))[0]
    values = "  ".join(f"{value:>{width}}" for value, width in zip(row.values, widths, strict=True))
    told = [_cell(row.loss, 7), _cell(row.acceptance, 7), _cell(row.served, 7), _cell(row.untrained, 9)]
    course = sparkline(row.point.course, COURSE)
    mark = "  best" if row.best else ""
    yield f"{glyph} {row.number:>3}  {values}  {row.where:<16} {' '.join(told)}{mark}  {course}".rstrip()
    yield f"       run {row.point.run}" + (f": {row.point.error}" if row.point.error else "")


def _cell(value: float | None, width: int) -> str:
    return f"{MISSING if value is None else figure(value):>{width}}"
