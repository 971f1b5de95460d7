"""Acceptance as evaluation measured it: a set of prompts a row, tokens a round untrained, simulated and served."""

from __future__ import annotations

from console.curves import KINDS, Accepted
from console.widgets.paint import Panel, Part, Row, fit, rule
from console.words import MISSING

COLUMN = 11


class Acceptance(Panel):
    def __init__(self) -> None:
        super().__init__(id="acceptance")
        self.table: tuple[Accepted, ...] = ()
        self.limit = 4

    def show(self, table: tuple[Accepted, ...], limit: int) -> None:
        """`limit`: sets that have room."""
        self.table, self.limit = table, limit
        self.display = bool(table)
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        if not self.table:
            return []
        names = min(28, max(12, width - 3 * COLUMN - 26))
        positions = width - names - 3 * COLUMN - 4
        head: list[Part] = [(f"  {fit('prompts', names)}", "muted")]
        head += [(fit(kind, COLUMN, "right"), "muted") for kind in KINDS]
        if positions >= 14:
            head.append(("  " + fit("served by position", positions), "muted"))
        rows = [rule([("acceptance", "strong"), ("  tokens a round", "muted")], width), Row(tuple(head))]
        for row in self.table[: self.limit]:
            rows.append(_row(row, names, positions))
        if len(self.table) > self.limit:
            rows.append(Row.of((f"  … and {len(self.table) - self.limit} more: `eyas metrics evaluate`", "faint")))
        return rows


def _row(row: Accepted, names: int, positions: int) -> Row:
    parts: list[Part] = [(f"  {fit(row.prompts, names)}", "text")]
    simulated, served = row.length.get("simulated"), row.length.get("served")
    differ = simulated is not None and served is not None and simulated != served
    for kind in KINDS:
        value = row.length.get(kind)
        ink = "muted" if value is None or kind == "untrained" else "bad" if differ else "strong"
        parts.append((fit(MISSING if value is None else f"{value:.3f}", COLUMN, "right"), ink))
    if positions >= 14:
        by_place = row.positions.get("served") or row.positions.get("simulated") or {}
        words = " ".join(f"{by_place[place]:.3f}" for place in sorted(by_place))
        parts.append(("  " + fit(words, positions), "muted"))
    return Row(tuple(parts))
