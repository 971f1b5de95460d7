"""The log, drawn through the line API: only the rows in sight cost anything, whatever is in the ring."""

from __future__ import annotations

import re

from rich.cells import cell_len
from textual.events import MouseScrollDown, MouseScrollUp
from textual.strip import Strip

from console.logring import LogTail
from console.sanitise import one_line
from console.store import Snapshot
from console.widgets.paint import Paints, Panel, Part, Row, rule
from console.words import many, size

_PREFIX = re.compile(r"^(?:\([^()]{1,80} pid=\d+\)\s*)+")
_BAD = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b|^\s*Traceback \(most recent call last\)|^\w*(?:Error|Exception)\b")
_WARN = re.compile(r"\bWARNING\b|Warning:")
SHIFT = 16
"""Cells that one press of → moves."""


class LogView(Paints):
    """Rows of a LogTail. Follows its end until the operator scrolls away; `to_end` takes it back.

    It holds its own place: while following, that is always the end, whatever the ring or the layout does.
    """

    def __init__(self, id: str, numbers: bool) -> None:
        super().__init__(id=id)
        self.tail = LogTail()
        self.following = True
        self.numbers = numbers
        self.marked: int | None = None
        """Index of the row that was jumped to."""
        self._place = 0
        self._shift = 0
        self._gone = 0

    def show(self, tail: LogTail) -> None:
        if tail is self.tail:
            return
        if tail.tail != self.tail.tail:
            self.following, self._shift, self.marked, self._gone = True, 0, None, tail.dropped
        gone, self._gone = tail.dropped - self._gone, tail.dropped
        if gone:  # the ring let rows go: stay on the same lines
            self._place = max(0, self._place - gone)
            self.marked = self.marked - gone if self.marked is not None and self.marked >= gone else None
        self.tail = tail
        self.refresh()

    # Moving ------------------------------------------------------------------------------------------------

    @property
    def last_top(self) -> int:
        """The top row when the end is in sight."""
        return max(0, self.tail.rows - self.size.height)

    @property
    def top(self) -> int:
        """The first row in sight."""
        return self.last_top if self.following else min(self._place, self.last_top)

    def move(self, rows: int) -> None:
        """Scroll; up stops following, reaching the end by going down starts it again."""
        self._place = min(max(0, self.top + rows), self.last_top)
        self.following = rows > 0 and self._place == self.last_top
        self.refresh()

    def to_top(self) -> None:
        self._place, self.following = 0, False
        self.refresh()

    def to_end(self) -> None:
        self.following = True
        self.refresh()

    def toggle_follow(self) -> None:
        self._place, self.following = self.top, not self.following
        self.refresh()

    def move_sideways(self, steps: int) -> None:
        self._shift = max(0, self._shift + steps * SHIFT)
        self.refresh()

    def jump(self, index: int) -> None:
        """Bring a held row into sight, a few rows below the top, and mark it."""
        self._place, self.following, self.marked = max(0, index - 2), False, index
        self.refresh()

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.move(-3)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.move(3)

    # Drawing -----------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        full, height = self.size
        width = max(0, full - 1)
        top = self.top
        index = top + y
        end = self.segments(Row(((_thumb(y, top, height, self.tail.rows), "rule"),)), full - width)
        if index >= self.tail.rows:
            return Strip([*self.segments(Row(), width), *end], full)
        row = self._row(index)
        if not self.numbers:
            return Strip([*self.segments(row, width, self._shift), *end], full)
        number = self.tail.number(index)
        gutter = f"{number:>7} " if number is not None else "      · "
        head = self.segments(Row(((gutter, "faint"),), cursor=row.cursor), min(width, len(gutter)))
        body = self.segments(row, max(0, width - len(gutter)), self._shift)
        return Strip([*head, *body, *end], full)

    def _row(self, index: int) -> Row:
        text = one_line(self.tail.row(index).text)
        match = _PREFIX.match(text)
        prefix, body = (match.group(), text[match.end() :]) if match else ("", text)
        ink = "bad" if _BAD.search(body[:200]) else "warn" if _WARN.search(body[:80]) else "text"
        parts: tuple[Part, ...] = ((prefix, "muted"), (body, ink)) if prefix else ((body, ink),)
        return Row(parts, cursor=index == self.marked)


def _thumb(y: int, top: int, height: int, rows: int) -> str:
    """The scroll bar's cell of row `y`: where in the held lines these rows stand."""
    if rows <= height:
        return " "
    size = max(1, height * height // rows)
    first = round(top * (height - size) / max(1, rows - height))
    return "┃" if first <= y < first + size else " "


class LogTitle(Panel):
    """`─ log extract #2 ──── 2,310 earlier lines on the host · 20,000 lines · following ─`"""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.snapshot = Snapshot()
        self.following = True

    def show(self, snapshot: Snapshot, following: bool) -> None:
        self.snapshot, self.following = snapshot, following
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        tail = self.snapshot.log
        title: list[Part] = [("log", "strong")]
        if tail.key is None:
            return [rule(title, width, [("none yet", "muted")])]
        title.append((f" {tail.key.stage} #{tail.key.attempt}", "text"))
        state = "ended" if tail.ended else "following" if self.following else "paused: f follows"
        facts = [tail.note, earlier(tail), many(tail.rows, "line"), state]
        facts = [fact for fact in facts if fact]
        while len(facts) > 1 and cell_len(" · ".join(facts)) > width - 30:
            facts.pop(0)
        ink = "muted" if self.following else "warn"
        return [rule(title, width, [(" · ".join(facts), ink)])]


def earlier(tail: LogTail) -> str:
    if tail.skipped_bytes:
        return f"{size(tail.skipped_bytes)} earlier on the host"
    return f"{many(tail.dropped, 'earlier line')} on the host" if tail.dropped else ""
