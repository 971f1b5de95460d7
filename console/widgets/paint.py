"""Drawing rows of styled text through the line API: what every panel of the console is made of.

A panel is a pure function from a Snapshot to rows; a row is a list of (text, ink). Inks are component classes, so
their colours live in console.tcss and follow the theme. All text is sanitised once more on its way to the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.content import Content, Span
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from console.sanitise import one_line, sanitise

_INKS = "text strong muted faint good warn bad accent bar track cursor rule key here"
Part = tuple[str, str]
"""Text and its ink."""


@dataclass(frozen=True)
class Row:
    parts: tuple[Part, ...] = ()
    cursor: bool = False
    """Drawn as the row that keys act on."""

    @classmethod
    def of(cls, *parts: Part | str, cursor: bool = False) -> Row:
        return cls(tuple((p, "text") if isinstance(p, str) else p for p in parts), cursor)

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self.parts)


def fit(text: str, width: int, align: str = "left") -> str:
    """`text` in exactly `width` cells: padded, or cut with an ellipsis."""
    text = one_line(text)
    size = cell_len(text)
    if size > width:
        return (set_cell_size(text, width - 1).rstrip() + "…").ljust(width) if width > 0 else ""
    return " " * (width - size) + text if align == "right" else text + " " * (width - size)


def bar(fraction: float | None, width: int, ink: str = "bar") -> tuple[Part, ...]:
    """A bar of `width` cells in half cells, readable without colour; dots where there is no figure."""
    if width <= 0:
        return ()
    if fraction is None:
        return (("·" * width, "faint"),)
    full, rest = divmod(round(min(1.0, max(0.0, fraction)) * width * 2), 2)
    head = "━" * full + ("╸" if rest else "")
    return ((head, ink), ("─" * (width - len(head)), "track"))


def rule(title: Sequence[Part], width: int, right: Sequence[Part] = ()) -> Row:
    """`── title ─────── right ──`: opens a panel in one row. The right side gives way when there is no room."""
    left_size = sum(cell_len(one_line(t)) for t, _ in title)
    right_size = sum(cell_len(one_line(t)) for t, _ in right)
    room = width - left_size - right_size - 6
    if right and room < 1:
        right, right_size, room = (), 0, width - left_size - 6
    line = "─" * max(0, room + (0 if right else 3))
    tail: tuple[Part, ...] = ((" ", "rule"), *right, (" ─", "rule")) if right else ()
    return Row((("─ ", "rule"), *title, (" ", "rule"), (line, "rule"), *tail))


class Paints(Widget):
    """Turns rows into strips. Subclasses style `paint--INK` components in the app's stylesheet."""

    COMPONENT_CLASSES = {f"paint--{ink}" for ink in _INKS.split()}  # noqa: RUF012
    ALLOW_SELECT = False

    def strip(self, row: Row, width: int) -> Strip:
        """One row, cut and padded to `width` cells."""
        return Strip(self.segments(row, width), width)

    def segments(self, row: Row, width: int, shift: int = 0) -> list[Segment]:
        """One row in exactly `width` cells, its first `shift` cells scrolled out."""
        parts = [Segment(one_line(text), self._ink(ink, row.cursor)) for text, ink in row.parts if text]
        size = sum(cell_len(part.text) for part in parts)
        if shift == 0 and size <= width:
            return [*parts, Segment(" " * (width - size), self._ink("text", row.cursor))] if size < width else parts
        if size <= shift + width:
            return list(Strip(parts, size).crop_extend(shift, shift + width, self._ink("text", row.cursor)))
        # Never a word cut without a sign of it.
        cut = Strip(parts, size).crop(shift, shift + max(0, width - 1)).adjust_cell_length(max(0, width - 1))
        return [*cut, Segment("…", self._ink("faint", row.cursor))] if width > 0 else []

    def _ink(self, ink: str, cursor: bool) -> Style:
        style = self.get_component_rich_style(f"paint--{ink}")
        if cursor:
            style += Style(bgcolor=self.get_component_rich_style("paint--cursor").bgcolor)
        return style


class Panel(Paints):
    """Rows, as many as `rows` gives; its height follows unless the stylesheet says otherwise."""

    DEFAULT_CSS = "Panel { height: auto; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._painted: tuple[int, list[Row]] | None = None
        self._height = -1

    def rows(self, width: int) -> list[Row]:
        """What to draw in `width` cells. Pure but for the panel's own state."""
        raise NotImplementedError

    def repaint(self) -> None:
        """The state that `rows` reads has changed."""
        width = self.content_size.width
        before, self._painted = self._painted, None
        if before is None or before[0] != width:
            self.refresh(layout=True)
        elif before[1] != self._rows(width):
            self.refresh(layout=len(self._rows(width)) != self._height)

    def _rows(self, width: int) -> list[Row]:
        if self._painted is None or self._painted[0] != width:
            self._painted = (width, self.rows(width))
        return self._painted[1]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        self._height = len(self._rows(width))
        return self._height

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        rows = self._rows(width)
        return self.strip(rows[y] if y < len(rows) else Row(), width)


def styled(*parts: Part | str) -> Content:
    """Foreign text for a textual widget, never as markup: the only way it may get there."""
    pieces: list[str] = []
    spans: list[Span] = []
    at = 0
    for part in parts:
        text, ink = (part, "text") if isinstance(part, str) else part
        text = sanitise(text, newlines=True)
        pieces.append(text)
        if style := _CONTENT_INKS.get(ink):
            spans.append(Span(at, at + len(text), style))
        at += len(text)
    return Content("".join(pieces), spans)


_CONTENT_INKS = {
    "strong": "bold",
    "muted": "$foreground-muted",
    "faint": "$foreground-disabled",
    "good": "$text-success",
    "warn": "$text-warning",
    "bad": "$text-error",
    "accent": "$text-accent",
    "key": "bold $text-accent",
    "rule": "$panel-lighten-2",
}
