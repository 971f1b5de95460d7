"""A sweep's points as rows of a list."""

from __future__ import annotations

from console.curves import figure
from console.sweep_report import PointRow, axes, rows
from console.widgets.paint import Part, Row, fit
from console.words import MISSING, STAGE_GLYPHS
from remote.views import SweepView

FIGURE = 9


def head(sweep: SweepView, width: int) -> Row:
    """Names of the columns; two cells are the list's own."""
    parts: list[Part] = [("     ", "muted")]
    parts += [(fit(_short(name), size, "right") + " ", "muted") for name, size in _axes(sweep)]
    parts.append(("  " + fit("", _where(sweep, width)), "muted"))
    parts += [(fit(name, FIGURE, "right"), "muted") for name in ("loss", "accept", "served")]
    return Row(tuple(parts))


def items(sweep: SweepView, width: int) -> list[tuple[str, Row]]:
    return [(row.point.run, _row(row, sweep, width)) for row in rows(sweep)]


def _row(row: PointRow, sweep: SweepView, width: int) -> Row:
    glyph, ink = STAGE_GLYPHS.get(row.point.state, ("?", "warn"))
    parts: list[Part] = [(fit(str(row.number), 2, "right") + " ", "muted"), (f"{glyph} ", ink)]
    sizes = [size for _, size in _axes(sweep)]
    parts += [(fit(value, size, "right") + " ", "strong") for value, size in zip(row.values, sizes, strict=True)]
    where = f"{row.where}: {row.point.error}" if row.point.error else row.where
    parts.append((" " + fit(where, _where(sweep, width)), ink))
    told = (row.loss, row.acceptance, row.served)
    inks = ("text", "text", "good" if row.best else "strong")
    for value, colour in zip(told, inks, strict=True):
        shown = MISSING if value is None else figure(value)
        parts.append((fit(shown, FIGURE, "right"), "muted" if value is None else colour))
    parts.append(("  best" if row.best else "", "good"))
    return Row(tuple(parts))


def _axes(sweep: SweepView) -> list[tuple[str, int]]:
    """Names of the axes, and the cells that each takes."""
    made = rows(sweep)
    return [
        (name, max(len(_short(name)), *(len(row.values[place]) for row in made)))
        for place, name in enumerate(axes(sweep))
    ]


def _short(name: str) -> str:
    return {"draft_vocabulary": "vocab", "ttt_steps": "ttt"}.get(name, name)


def _where(sweep: SweepView, width: int) -> int:
    used = 2 + 5 + sum(size + 1 for _, size in _axes(sweep)) + 1 + 3 * FIGURE + 6
    return max(8, min(40, width - used))
