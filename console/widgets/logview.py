"""The log, drawn through the line API: only the rows in sight cost anything, whatever is held."""

from __future__ import annotations

import re
from bisect import bisect_left

from rich.cells import cell_len
from textual.events import MouseScrollDown, MouseScrollUp
from textual.message import Message
from textual.strip import Strip

from console.logwindow import LogWindow
from console.sanitise import one_line
from console.store import Snapshot
from console.widgets.paint import Paints, Panel, Part, Row, rule
from console.words import size

_PREFIX = re.compile(r"^(?:\([^()]{1,80} pid=\d+\)\s*)+")
_BAD = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b|^\s*Traceback \(most recent call last\)|^\w*(?:Error|Exception)\b")
_WARN = re.compile(r"\bWARNING\b|Warning:")
SHIFT = 16
"""Cells that one press of → moves."""


class LogView(Paints):
    """Rows of a LogWindow. Follows the log's end until the operator moves away; `to_end` takes it back.

    It holds its own place: while following, that is always the end; else the byte at which its first row begins,
    whatever the window gains or loses at its ends.
    """

    class Moved(Message):
        """The operator moved: other rows are in sight."""

    def __init__(self, id: str, numbers: bool) -> None:
        super().__init__(id=id)
        self.window = LogWindow()
        self.following = True
        self.numbers = numbers
        self.log_size = 0
        self._live = LogWindow()
        self._place = 0
        """Offset of the first row in sight, while not following."""
        self._shift = 0
        self._jump = 0

    def show(self, live: LogWindow, browsed: LogWindow | None = None, size: int = 0) -> None:
        """The log's end as it grows, the part of it that is read in, and how large it is known to be."""
        self.log_size = max(size, live.size, live.end, browsed.size if browsed is not None else 0)
        if live.opened != self._live.opened:
            self.following, self._shift, self._jump = True, 0, 0
        self._live = live
        window = self.window
        if browsed is not None and browsed.jump > self._jump:
            self._jump, self.following, window = browsed.jump, False, browsed
            mark = browsed.row_at(browsed.mark or 0) or 0
            self._place = browsed.row(max(0, mark - 2)).offset if browsed.count else 0
        elif self.following:
            window = live
        elif browsed is not None and browsed.start <= self._place <= browsed.end:
            window = browsed
        if window is not self.window:
            self.window = window
            self.refresh()

    # Moving ------------------------------------------------------------------------------------------------

    @property
    def last_top(self) -> int:
        """The top row when the last row held is in sight."""
        return max(0, self.window.count - self.size.height)

    @property
    def top(self) -> int:
        """The first row in sight."""
        if self.following:
            return self.last_top
        rows = self.window
        return min(bisect_left(range(rows.count), self._place, key=lambda i: rows.row(i).offset), self.last_top)

    @property
    def place(self) -> int:
        """Offset of the first row in sight."""
        return self.window.row(self.top).offset if self.window.count else self.window.start

    @property
    def marked(self) -> int | None:
        """Index of the row that was jumped to, while it is in sight."""
        mark = None if self.window.mark is None else self.window.row_at(self.window.mark)
        return mark if mark is not None and self.top <= mark < self.top + self.size.height else None

    def move(self, rows: int) -> None:
        """Scroll; up stops following, reaching the log's end by going down starts it again."""
        top = min(max(0, self.top + rows), self.last_top)
        ends = top == self.last_top and self.window.end >= self.log_size
        self._stay(top, rows > 0 and (self.following or ends))

    def to_end(self) -> None:
        self._stay(self.top, True)

    def toggle_follow(self) -> None:
        self._stay(self.top, not self.following)

    def _stay(self, top: int, following: bool) -> None:
        if self.following and not following:
            self.window = self.window.frozen()
        self.following = following
        if following:
            self.window = self._live
        elif self.window.count:
            self._place = self.window.row(top).offset
        self.refresh()
        self.post_message(self.Moved())

    def move_sideways(self, steps: int) -> None:
        self._shift = max(0, self._shift + steps * SHIFT)
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
        end = self.segments(Row(((self._thumb(y, top, height), "rule"),)), full - width)
        if index >= self.window.count:
            return Strip([*self.segments(Row(), width), *end], full)
        row = self._row(index)
        if not self.numbers:
            return Strip([*self.segments(row, width, self._shift), *end], full)
        gutter = self._gutter(index)
        head = self.segments(Row(((gutter, "faint"),), cursor=row.cursor), min(width, len(gutter)))
        body = self.segments(row, max(0, width - len(gutter)), self._shift)
        return Strip([*head, *body, *end], full)

    def _row(self, index: int) -> Row:
        text = one_line(self.window.row(index).text)
        match = _PREFIX.match(text)
        prefix, body = (match.group(), text[match.end() :]) if match else ("", text)
        ink = "bad" if _BAD.search(body[:200]) else "warn" if _WARN.search(body[:80]) else "text"
        parts: tuple[Part, ...] = ((prefix, "muted"), (body, ink)) if prefix else ((body, ink),)
        return Row(parts, cursor=index == self.marked)

    def _gutter(self, index: int) -> str:
        """The row's line number; a dot where the host has not counted so far, or a long line goes on."""
        row, last = self.window.row(index), self.window.row(self.window.count - 1).line
        number = "·" if row.line is None else str(row.line) if row.starts else ""
        return f"{number:>{max(7, len(str(last or '')))}} "

    def _thumb(self, y: int, top: int, height: int) -> str:
        """The scroll bar's cell of row `y`: where in the whole log these rows stand, by their bytes."""
        rows, log = self.window, max(self.window.end, self.log_size, 1)
        if not rows.count or (rows.start == 0 and rows.count <= height):
            return " "
        behind = rows.row(min(top + height, rows.count) - 1)
        seen = behind.offset + behind.size - rows.row(top).offset
        size = max(1, height * seen // log)
        first = round(rows.row(top).offset * (height - size) / max(1, log - seen))
        return "┃" if first <= y < first + size else " "


class LogTitle(Panel):
    """`─ log extract #2 ──── at 45 % of 3.2 GiB · paused: f follows ─`"""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.snapshot = Snapshot()
        self.following = True
        self.place = self.size_known = 0

    def show(self, snapshot: Snapshot, view: LogView) -> None:
        self.snapshot, self.following = snapshot, view.following
        self.place, self.size_known = view.place, view.log_size
        self.repaint()

    def rows(self, width: int) -> list[Row]:
        log = self.snapshot.log
        title: list[Part] = [("log", "strong")]
        if log.key is None:
            return [rule(title, width, [("none yet", "muted")])]
        title.append((f" {log.key.stage} #{log.key.attempt}", "text"))
        state = "paused: f follows" if not self.following else "ended" if log.ended else "following"
        whole = size(self.size_known)
        held = whole if self.following else f"at {self.place / max(1, self.size_known):.0%} of {whole}"
        facts = [fact for fact in (held, log.note, self.snapshot.looking or state) if fact]
        room = width - sum(cell_len(text) for text, _ in title) - 8
        while len(facts) > 1 and cell_len(" · ".join(facts)) > room:
            facts.pop(0)
        ink = "muted" if self.following and not self.snapshot.looking else "warn"
        return [rule(title, width, [(" · ".join(facts), ink)])]
