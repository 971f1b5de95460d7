"""Where a line lies in a log of any size: by number, by offset, by time.

The index is sparse: an offset and a line number every few MiB, made while the log is read. What lies between two
points is looked up in the log itself, through a `Read` that the caller hands over. Line numbers count line feeds
from 1, as `grep -n` does.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable

from remote.logs.moments import Moment, first_moment, moments

STEP = 4 << 20
"""Bytes between two points to begin with; twice as many whenever there are MAX_POINTS."""
MAX_POINTS = 4096
BLOCK = 256 << 10
TIMED_WITHIN = 64 << 10
"""So far behind a point its first time stamp is looked for."""

Read = Callable[[int, int], bytes]
"""(offset, size) -> at most `size` bytes of the log from there, fewer only at its end."""


class LineIndex:
    """Fed the whole log once, in pieces of any size, from its first byte on. Takes at most MAX_POINTS points."""

    def __init__(self, step: int = STEP) -> None:
        self.size = 0
        """Bytes fed so far."""
        self.line_feeds = 0
        self._step = step
        self._due = step
        self._offsets = array("Q", [0])
        self._lines = array("Q", [0])
        self._moments: dict[int, Moment | None] = {}

    def feed(self, data: bytes) -> None:
        at = 0
        while self.size + len(data) - at >= self._due:
            # A point lies at a line's start: behind the first line feed from where it is due.
            end = data.find(b"\n", max(at, at + self._due - self.size - 1)) + 1
            if not end:
                break
            self.line_feeds += _feeds(data[at:end])
            self.size += end - at
            at = end
            self._point()
        self.line_feeds += _feeds(data[at:])
        self.size += len(data) - at

    def _point(self) -> None:
        self._offsets.append(self.size)
        self._lines.append(self.line_feeds)
        if len(self._offsets) > MAX_POINTS:
            self._offsets, self._lines = self._offsets[::2], self._lines[::2]
            self._step *= 2
        self._due = self.size + self._step

    @property
    def points(self) -> int:
        return len(self._offsets)

    def line_at(self, offset: int, read: Read) -> int | None:
        """The number of the line that holds the byte at `offset`; None beyond what was fed."""
        if not 0 <= offset <= self.size:
            return None
        place = bisect_right(self._offsets, offset) - 1
        at, feeds = self._offsets[place], self._lines[place]
        while at < offset:
            data = read(at, min(BLOCK, offset - at))
            if not data:
                return None  # the log was cut meanwhile
            feeds += data.count(b"\n")
            at += len(data)
        return feeds + 1

    def offset_of(self, line: int, read: Read) -> int | None:
        """Where line number `line`, from 1, begins; None when that was not fed yet."""
        if not 1 <= line <= self.line_feeds + 1:
            return None
        place = bisect_right(self._lines, line - 1) - 1
        at, missing = self._offsets[place], line - 1 - self._lines[place]
        while missing:
            data = read(at, BLOCK)
            feeds = data.count(b"\n")
            if not data:
                return None
            if feeds >= missing:
                return at + _behind_feed(data, missing)
            missing -= feeds
            at += len(data)
        return at

    def offset_at(self, moment: Moment, read: Read) -> int:
        """The first line stamped `moment` or later; the end of what was fed when every line is older.

        Stamps of one log are taken to grow; where workers wrote a little out of order, so may be the answer.
        """
        place = bisect_left(range(self.points), True, key=lambda place: self._is_from(place, moment, read))
        at = self._offsets[max(0, place - 1)]
        while at < self.size:
            data = read(at, BLOCK)
            for found, offset in moments(data):
                if found >= moment:
                    return at + offset
            if len(data) < BLOCK:
                break
            # A line that goes on in the next block is looked at there.
            at += data.rfind(b"\n") + 1 or len(data)
        return self.size

    def _is_from(self, place: int, moment: Moment, read: Read) -> bool:
        """Whether the lines from this point on are from `moment` or later; those without a stamp follow the next."""
        while place < self.points:
            offset = self._offsets[place]
            if offset not in self._moments:
                self._moments[offset] = first_moment(read(offset, TIMED_WITHIN))
            known = self._moments[offset]
            if known is not None:
                return known >= moment
            place += 1
        return True


def _feeds(data: bytes) -> int:
    """How many line feeds `data` has; with lines of usual length this takes half as long as `count`."""
    return len(data) - len(data.replace(b"\n", b""))


def _behind_feed(data: bytes, count: int) -> int:
    """Behind the `count`th line feed of `data`, which has as many."""
    at, step = 0, 4096
    while (feeds := data.count(b"\n", at, at + step)) < count:
        count -= feeds
        at += step
    for _ in range(count):
        at = data.index(b"\n", at) + 1
    return at
