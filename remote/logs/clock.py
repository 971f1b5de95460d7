"""The log's own clock: when its lines were written, where they say so.

Bars carry no time of day. A step was printed before the first later line that shows a time, and the log lasted at
least until its last such line: what lies between the two is a gap that the log itself proves.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import NamedTuple

HEAD_BYTES = 200
"""A line's time stands this near to its beginning."""
TAIL_BYTES = 16 * 1024
"""The last time is looked for in so much of the log's end."""
SEARCH_BYTES = 256 * 1024
"""The first time after a step is looked for in so much of what follows it."""

_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_TIME = re.compile(
    rb"(?P<year>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)[T ](?P<iso>\d\d:\d\d:\d\d)"
    rb"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<month>\d\d)-(?P<day>\d\d) (?P<vllm>\d\d:\d\d:\d\d)"
    rb"|(?P<name>" + b"|".join(_MONTHS) + rb") (?P<date>[ \d]\d) (?P<syslog>\d\d:\d\d:\d\d)"
)
_NO_YEAR = 2024
"""Where a format has no year: a leap year, so that every date exists."""
_YEAR = 366 * 86400.0


class Time(NamedTuple):
    """Two times compare only within one format: a log can show several time zones."""

    form: str
    seconds: float
    at_start: bool
    """It heads its line, so the line was written no later."""


def read_time(data: bytes | bytearray, start: int, end: int) -> Time | None:
    """The first time that the line `data[start:end]` shows near its beginning."""
    match = _TIME.search(data, start, min(end, start + HEAD_BYTES))
    if not match:
        return None
    form = match.lastgroup or ""
    if form == "iso":
        year, month, day = int(match["year"]), int(match["m"]), int(match["d"])
    elif form == "vllm":
        year, month, day = _NO_YEAR, int(match["month"]), int(match["day"])
    else:
        year, month, day = _NO_YEAR, _MONTHS.index(match["name"]) + 1, int(match["date"])
    hour, minute, second = (int(part) for part in match[form].split(b":"))
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:
        return None
    return Time(form, moment.timestamp(), match.start() == start)


class Clock:
    """Follows the bytes of a log; costs little more than a copy of its tail until it is asked."""

    def __init__(self) -> None:
        self._tail = b""
        self._end = 0
        self._waiting: dict[int, int] = {}
        """By the number of whoever waits: the offset of a line whose first later time is not known yet."""
        self._after: dict[int, Time] = {}

    def wait_for(self, number: int, offset: int) -> None:
        """Look for the first time behind the line at `offset`, in what `feed` gets from now on."""
        self._waiting[number] = offset
        self._after.pop(number, None)

    def forget(self, number: int) -> None:
        self._waiting.pop(number, None)
        self._after.pop(number, None)

    def after(self, number: int) -> Time | None:
        """The first time behind the line that `number` waits for; None while there is none nearby."""
        return self._after.get(number)

    def feed(self, data: bytes) -> None:
        """What follows in the log. A line in it has to be waited for before."""
        end = self._end
        self._end += len(data)
        if self._waiting:
            # What is waited for lies in the tail, or behind its line in the data; no more of either is looked at.
            joint = self._tail + data[: SEARCH_BYTES + TAIL_BYTES]
            for number, offset in list(self._waiting.items()):
                if offset < end:
                    self._search(number, offset, joint, end - len(self._tail))
                else:
                    self._search(number, offset, data, end)
        self._tail = data[-TAIL_BYTES:] if len(data) >= TAIL_BYTES else (self._tail + data)[-TAIL_BYTES:]

    def ends_with(self, data: bytes) -> bool:
        """Whether the log's latest bytes are `data`, as far as they are kept."""
        return self._tail.endswith(data[-TAIL_BYTES:])

    def last(self, form: str) -> Time | None:
        """The latest time near the end of the log, on its last whole line that has one of this form."""
        end = self._tail.rfind(b"\n")
        while end > 0:
            start = self._tail.rfind(b"\n", 0, end) + 1
            if not start and len(self._tail) < self._end:
                return None  # the line's beginning may be gone
            time = read_time(self._tail, start, end)
            if time is not None and time.form == form:
                return self._in_order(time)
            end = start - 1
        return None

    def _in_order(self, time: Time) -> Time:
        """A time without a year, within half a year of those known: 1 January comes after 31 December."""
        known = [other.seconds for other in self._after.values() if other.form == time.form]
        if time.form == "iso" or not known:
            return time
        years = round((max(known) - time.seconds) / _YEAR)
        return time._replace(seconds=time.seconds + years * _YEAR) if years else time

    def _search(self, number: int, offset: int, text: bytes, start: int) -> None:
        """`text` begins at byte `start` of the log. Only whole lines count, and none longer than the tail kept."""
        place = offset - start
        if place < 0:  # the line has begun long ago: go on behind the first line end, whose line may be cut
            place = text.find(b"\n") + 1 if start else 0
        while (end := text.find(b"\n", place)) >= 0:
            if place + start > offset + SEARCH_BYTES:
                del self._waiting[number]
                return
            time = read_time(text, place, end) if end - place <= TAIL_BYTES else None
            if time is not None and (place + start > offset or time.at_start):
                self._after[number] = self._in_order(time)
                del self._waiting[number]
                return
            place = end + 1
