"""The log, drawn through the line API: only the rows in sight cost anything, whatever is in the ring."""

from __future__ import annotations

import re

from rich.cells import cell_len
from textual.events import MouseScrollDown, MouseScrollUp
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.logring import LogTail
from console.sanitise import one_line
from console.store import Snapshot
from console.widgets.paint import Paints, Panel, Part, Row, rule
from console.widgets.words import many, size

_PREFIX = re.compile(r"^(?:\([^()]{1,80} pid=\d+\)\s*)+")
_BAD = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b|^\s*Traceback \(most recent call last\)|^\w*(?:Error|Exception)\b")
_WARN = re.compile(r"\bWARNING\b|Warning:")
SHIFT = 16
"""Cells that one press of → moves."""


class LogView(ScrollView, Paints):
    """Rows of a LogTail. Follows its end until the operator scrolls away; `follow` takes it back."""

    COMPONENT_CLASSES = Paints.COMPONENT_CLASSES  # textual inherits these from the first base only
    can_focus = False

    def __init__(self, id: str, numbers: bool) -> None:
        super().__init__(id=id)
        self.tail = LogTail()
        self.following = True
        self.numbers = numbers
        self.shift = 0
        self.marked: int | None = None
        """Index of the row that was jumped to."""
        self._gone = 0

    def show(self, tail: LogTail) -> None:
        if tail is self.tail:
            return
        if tail.tail != self.tail.tail:
            self.following, self.shift, self.marked, self._gone = True, 0, None, tail.dropped
        gone, self._gone = tail.dropped - self._gone, tail.dropped
        self.tail = tail
        if gone and self.marked is not None:
            self.marked = self.marked - gone if self.marked >= gone else None
        self.virtual_size = Size(self.size.width, tail.rows)
        if self.following:
            self.scroll_end(animate=False, immediate=True, x_axis=False, force=True)
        elif gone:
            self.scroll_to(y=max(0, self.scroll_offset.y - gone), animate=False, force=True)
        self.refresh()

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, self.tail.rows)
        if self.following:
            self.scroll_end(animate=False, immediate=True, x_axis=False, force=True)

    # Moving ------------------------------------------------------------------------------------------------

    def move(self, rows: int) -> None:
        """Scroll; up stops following, reaching the end by going down starts it again."""
        top = min(max(0, self.scroll_offset.y + rows), max(0, self.tail.rows - self.size.height))
        self.scroll_to(y=top, animate=False, force=True)
        self.following = rows > 0 and top >= self.tail.rows - self.size.height
        self.refresh()

    def to_top(self) -> None:
        self.following = False
        self.scroll_to(y=0, animate=False, force=True)
        self.refresh()

    def to_end(self) -> None:
        self.following = True
        self.scroll_end(animate=False, immediate=True, x_axis=False, force=True)
        self.refresh()

    def toggle_follow(self) -> None:
        if self.following:
            self.following = False
        else:
            self.to_end()

    def move_sideways(self, steps: int) -> None:
        self.shift = max(0, self.shift + steps * SHIFT)
        self.refresh()

    def jump(self, index: int) -> None:
        """Bring a held row into sight, a few rows below the top, and mark it."""
        self.following, self.marked = False, index
        self.scroll_to(y=max(0, index - 2), animate=False, force=True)
        self.refresh()

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        event.prevent_default()
        self.move(-3)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        event.prevent_default()
        self.move(3)

    # Drawing -----------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        index = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if index >= self.tail.rows:
            return self.strip(Row(), width)
        row = self._row(index)
        if not self.numbers:
            return self.strip(row, width, self.shift)
        number = self.tail.number(index)
        gutter = f"{number:>7} " if number is not None else "      · "
        head = self.strip(Row(((gutter, "faint"),), cursor=index == self.marked), len(gutter))
        return Strip.join([head, self.strip(row, max(0, width - len(gutter)), self.shift)])

    def _row(self, index: int) -> Row:
        text = one_line(self.tail.row(index).text)
        match = _PREFIX.match(text)
        prefix, body = (match.group(), text[match.end() :]) if match else ("", text)
        ink = "bad" if _BAD.search(body[:200]) else "warn" if _WARN.search(body[:80]) else "text"
        parts: tuple[Part, ...] = ((prefix, "muted"), (body, ink)) if prefix else ((body, ink),)
        return Row(parts, cursor=index == self.marked)


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
