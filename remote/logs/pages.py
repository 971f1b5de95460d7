"""A screenful of a log of any size: a few hundred rows from an offset on, or up to one. No more is ever read."""

from __future__ import annotations

from dataclasses import dataclass

from remote.logs.index import Read
from remote.logs.terminal import CAP, Drawn

WINDOW = 256 << 10
"""Bytes read for a page at most, and shown of one line before its next row."""
PAGE_BYTES = 64 << 10
"""Of text in one page: six times as much in JSON at worst, so that two pages are within a frame."""
MAX_ROWS = 500


@dataclass(frozen=True)
class Row:
    """One line, or WINDOW bytes of a line that is longer."""

    offset: int
    size: int
    """Bytes up to the next row, line ending included."""
    text: str
    """What a terminal shows of it at the end."""
    starts: bool = True
    """False for the later rows of one long line."""
    line: int | None = None
    """Its number, where that is known."""


def rows_from(read: Read, offset: int, count: int) -> list[Row]:
    """At most `count` rows, the first one beginning at `offset`, which is a line's start or inside a long line."""
    data = read(offset, WINDOW)
    if len(data) == WINDOW and b"\n" not in data:
        data = data[: data.rfind(b"\r", WINDOW - CAP) + 1 or WINDOW]  # a bar is shown as it was drawn, not cut
    starts = offset == 0 or read(offset - 1, 1) == b"\n"
    rows = _rows(data, offset, starts, min(count, MAX_ROWS))
    if len(data) == WINDOW and len(rows) > 1 and rows[-1].offset + rows[-1].size == offset + WINDOW:
        del rows[-1]  # perhaps only its beginning: the next page has it whole
    return rows[: _fitting(rows)]


def rows_before(read: Read, end: int, count: int) -> list[Row]:
    """At most `count` rows that end at `end`, which is a line's start or the log's end."""
    at = max(0, end - WINDOW)
    data = read(at, end - at)
    first = len(data)
    for _ in range(min(count, MAX_ROWS)):
        if not first:
            break
        first = data.rfind(b"\n", 0, first - 1) + 1
    if not first and at and b"\n" in data[:-1] and read(at - 1, 1) != b"\n":
        first = data.index(b"\n") + 1  # the end of a line that begins before
    starts = at + first == 0 or read(at + first - 1, 1) == b"\n"
    if not starts:
        behind = data.find(b"\n", first) + 1 or len(data)
        first = data.find(b"\r", first, min(first + CAP, behind - CAP)) + 1 or first
    rows = _rows(data[first:], at + first, starts, MAX_ROWS) if count else []
    return rows[len(rows) - _fitting(rows[::-1]) :]


def line_start(read: Read, offset: int) -> int:
    """Where the line that holds `offset` begins; WINDOW before it at most."""
    at = max(0, offset - WINDOW)
    feed = read(at, offset - at).rfind(b"\n")
    return at + feed + 1


def _rows(data: bytes, offset: int, starts: bool, count: int) -> list[Row]:
    rows: list[Row] = []
    at = 0
    while at < len(data) and len(rows) < count:
        end = data.find(b"\n", at) + 1 or len(data)
        rows.append(Row(offset + at, end - at, shown(data[at:end]), starts))
        starts = data[end - 1 : end] == b"\n"
        at = end
    return rows


def _fitting(rows: list[Row]) -> int:
    """How many of the first rows one page holds."""
    room = PAGE_BYTES
    for place, row in enumerate(rows):
        room -= len(row.text.encode())
        if room < 0 and place:
            return place
    return len(rows)


def shown(line: bytes) -> str:
    """The line's last state on a terminal, without its ending."""
    return Drawn().feed(line.removesuffix(b"\n")).text(whole=True)
