"""Rows of one log that follow on one another, as the console holds them: bounded, and exact to the byte.

A window grows at either end by pages that the host looks up, and at its end by the bytes that a tail brings. What a
line shows is the same either way.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from console.sanitise import sanitise
from remote.logs.terminal import Drawn

KEEP = 4000
"""Rows held at most: what leaves at one end is on the host."""

NOTHING = Drawn()


class LogRow(NamedTuple):
    """One line, or a piece of a very long one."""

    offset: int
    """Of its first byte in the log."""
    size: int
    """Bytes, line ending included."""
    text: str
    """Safe to draw."""
    starts: bool = True
    """False for the later pieces of one long line."""
    line: int | None = None
    """Its line's number, from 1; None while the host has not counted so far."""


@dataclass(frozen=True)
class LogKey:
    run: str
    stage: str
    attempt: int


@dataclass(frozen=True)
class LogWindow:
    key: LogKey | None = None
    tail: str = ""
    """Name of the subscription that feeds its end; '' for a window that stands still."""
    log_id: str | None = None
    size: int = 0
    """Bytes of the whole log, when last heard of."""
    rows: tuple[LogRow, ...] = ()
    """The last one may begin at `next_offset`: then it had not ended when it was looked up, and is replaced."""
    next_offset: int = 0
    """The byte that is expected next."""
    partial: Drawn = NOTHING
    """The line under way: the bytes right before `next_offset`."""
    under_way: tuple[bool, int | None] = (True, 1)
    """Of the next row: whether it starts a line, and that line's number."""
    opened: int = 0
    """Number of the time that a log was opened: another one is read from its end anew."""
    opening: bool = False
    """True until the host has told what the log's end is."""
    ended: bool = False
    note: str = ""
    """What happened to the file itself: truncated, replaced."""
    mark: int | None = None
    """Offset of the row that was jumped to."""
    jump: int = 0
    """Number of that jump, 0 for none: a window with another one is shown at its mark."""

    # Looking -----------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Rows to show, the line under way included."""
        return len(self.rows) + (1 if self.partial.size else 0)

    @property
    def start(self) -> int:
        """The first byte held."""
        return self.rows[0].offset if self.rows else self.next_offset - self.partial.size

    @property
    def end(self) -> int:
        """Behind the last byte that is shown."""
        return max(self.next_offset, self.rows[-1].offset + self.rows[-1].size) if self.rows else self.next_offset

    def row(self, index: int) -> LogRow:
        if index < len(self.rows):
            return self.rows[index]
        starts, line = self.under_way
        text = sanitise(self.partial.text())
        return LogRow(self.next_offset - self.partial.size, self.partial.size, text, starts, line)

    def lines(self) -> Iterator[LogRow]:
        return (self.row(index) for index in range(self.count))

    def row_at(self, offset: int) -> int | None:
        """The row that holds the byte `offset`, None when it is not held."""
        if not self.start <= offset < self.end:
            return None
        return bisect_right(range(self.count), offset, key=lambda index: self.row(index).offset) - 1

    # Making ------------------------------------------------------------------------------------------------

    @classmethod
    def of_page(cls, key: LogKey, page: Mapping[str, Any], **more: Any) -> LogWindow:
        """What one page of the host holds, its result as PAGE gives it. Raises KeyError, TypeError, ValueError."""
        rows = _rows(page)
        log_id, size = str(page["log_id"]), int(page["size"])
        empty = cls(key=key, log_id=log_id, size=size, next_offset=rows[0].offset if rows else size, **more)
        return empty._ending(rows, empty.under_way if not rows or rows[0].offset == 0 else (True, None))

    def frozen(self) -> LogWindow:
        """The same rows, standing still: to read on in while the log goes on."""
        if not self.partial.size:
            return replace(self, tail="")
        last = self.row(len(self.rows))
        return replace(self, tail="", rows=(*self.rows, last), next_offset=last.offset, partial=NOTHING)

    # Growing -----------------------------------------------------------------------------------------------

    def feed(self, offset: int, log_id: str | None, data: bytes) -> LogWindow:
        """Take bytes that stand at `offset` of the log. What was had already is not taken twice."""
        replaced = None not in (log_id, self.log_id) and log_id != self.log_id
        if offset > self.next_offset or replaced:
            fresh = LogWindow(self.key, self.tail, next_offset=offset, opened=self.opened, under_way=(True, None))
            return replace(fresh, note="bytes are missing before this")._take(log_id, data)
        return self._take(log_id, data[self.next_offset - offset :])

    def earlier(self, page: Mapping[str, Any]) -> LogWindow:
        """With the rows before it: a page that ends where it starts, else the window as it is."""
        rows = _rows(page)
        if not rows or rows[-1].offset + rows[-1].size != self.start:
            return self
        grown = replace(self, size=max(self.size, int(page["size"])))._counted((*rows, *self.rows))
        if len(grown.rows) <= KEEP:
            return grown
        if self.tail:  # its end is what it is for
            return replace(grown, rows=grown.rows[-KEEP:])
        return grown._ending(grown.rows[:KEEP], grown.under_way)

    def later(self, page: Mapping[str, Any]) -> LogWindow:
        """With the rows behind it: a page that begins at `next_offset`, else the window as it is."""
        rows = _rows(page)
        size = max(self.size, int(page["size"]))
        if not rows or rows[0].offset != self.next_offset or self.partial.size:
            return replace(self, size=size)
        return replace(self, size=size)._ending((*self._whole(), *rows), self.under_way)

    def joined(self, live: LogWindow) -> LogWindow:
        """With the rows that another window of the same log holds behind it; as it is when they do not meet."""
        whole = live.frozen()
        if whole.log_id != self.log_id or self.partial.size or not whole.start <= self.next_offset <= whole.end:
            return self
        rows = tuple(row for row in whole.rows if row.offset >= self.next_offset)
        if not rows or rows[0].offset != self.next_offset:
            return self
        kept = _numbered((*self._whole(), *rows))[-KEEP:]
        return replace(whole, rows=kept, mark=self.mark, jump=self.jump)

    def numbered(self, page: Mapping[str, Any]) -> LogWindow:
        """With line numbers, as far as a page of these rows has them."""
        known = {row.offset: row.line for row in _rows(page) if row.line is not None}
        rows = tuple(row._replace(line=known.get(row.offset, row.line)) for row in self.rows)
        return self if rows == self.rows else self._counted(rows)

    def _whole(self) -> tuple[LogRow, ...]:
        """The rows that have ended."""
        return self.rows[:-1] if self.rows and self.rows[-1].offset >= self.next_offset else self.rows

    def _counted(self, rows: tuple[LogRow, ...]) -> LogWindow:
        """With these rows, which end where its own do, all numbered if any is."""
        rows, (starts, line) = _numbered(rows), self.under_way
        if rows and (last := rows[-1]).line is not None:
            line = last.line + (starts and last.offset < self.next_offset)
        return replace(self, rows=rows, under_way=(starts, line))

    def _ending(self, rows: tuple[LogRow, ...], under_way: tuple[bool, int | None]) -> LogWindow:
        """With these rows, the line under way gone: one that reaches the log's end may not be whole yet."""
        rows = _numbered(rows)[-KEEP:]
        if not rows:
            return replace(self, rows=(), under_way=under_way)
        last = rows[-1]
        end = last.offset + last.size
        if end >= self.size:
            next_offset, under_way = last.offset, (last.starts, last.line)
        else:
            next_offset, under_way = end, (True, None if last.line is None else last.line + 1)
        return replace(self, rows=rows, next_offset=next_offset, partial=NOTHING, under_way=under_way)

    def _take(self, log_id: str | None, data: bytes) -> LogWindow:
        window = replace(self, log_id=log_id or self.log_id)
        if not data:
            return window
        *whole, rest = data.split(b"\n")
        fresh: list[LogRow] = []
        offset, partial, (starts, line) = self.next_offset - self.partial.size, self.partial, self.under_way
        for piece in whole:
            drawn = partial.feed(piece)
            fresh.append(LogRow(offset, drawn.size + 1, sanitise(drawn.text(whole=True)), starts, line))
            offset, partial = offset + drawn.size + 1, NOTHING
            starts, line = True, None if line is None else line + 1
        end = self.next_offset + len(data)
        return replace(
            window,
            rows=(*self._whole(), *fresh)[-KEEP:],
            next_offset=end,
            size=max(self.size, end),
            partial=partial.feed(rest) if rest else partial,
            under_way=(starts, line),
        )


def _rows(page: Mapping[str, Any]) -> tuple[LogRow, ...]:
    return tuple(
        LogRow(
            int(row["offset"]),
            int(row["size"]),
            sanitise(str(row["text"])),
            bool(row.get("starts", True)),
            None if row.get("line") is None else int(row["line"]),
        )
        for row in page["rows"]
    )


def _numbered(rows: tuple[LogRow, ...]) -> tuple[LogRow, ...]:
    """All rows with a number, when any has one."""
    if not rows or None not in (rows[0].line, rows[-1].line):
        return rows
    known = next((index for index, row in enumerate(rows) if row.line is not None), None)
    if known is not None:
        line = int(rows[known].line or 0) - sum(row.starts for row in rows[1 : known + 1])
    elif rows[0].offset == 0:
        line = 1
    else:
        return rows
    return tuple(_lined(rows, line))


def _lined(rows: Iterable[LogRow], line: int) -> Iterator[LogRow]:
    for index, row in enumerate(rows):
        line += row.starts if index else 0
        yield row if row.line == line else row._replace(line=line)
