"""The time that a log line carries, as it is printed: no zone is applied, so what is seen is what is looked for.

Known stamps: `2026-11-29 15:30:26` (also with T), `11-29 15:30:26` (vLLM), `Nov 29 15:30:26` (syslog).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = rb"(?P<clock>[012]\d:[0-5]\d:[0-6]\d)"
_STAMP = re.compile(
    # The head of the line only: a number inside a message is no time.
    rb"^[^\n]{0,100}?(?<![\d\-])"
    rb"(?:(?:\d{4}-)?(?P<month>[01]\d)-(?P<day>[0-3]\d)[T ]"
    rb"|(?P<name>" + "|".join(MONTHS).encode() + rb") (?P<date>[ \d]\d) )" + _CLOCK,
    re.MULTILINE,
)
_ASKED = re.compile(r"(?:(?:\d{4}-)?(?P<month>\d\d)-(?P<day>\d\d)[T ]+)?(?P<clock>\d{1,2}:\d\d(?::\d\d)?)$")


_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)
"""Days of a leap year before each month: every date that is printed has a place in it."""
_YEAR = 366 * 86400


class Moment(NamedTuple):
    """A time within a year: most stamps name none.

    Of two moments the earlier one is that from which the other is reached sooner: no log lasts half a year, so
    1 January comes after 31 December.
    """

    month: int
    day: int
    second: int
    """Of the day."""

    def __gt__(self, other: tuple[int, ...]) -> bool:
        return _is_before(other, self)

    def __lt__(self, other: tuple[int, ...]) -> bool:
        return _is_before(self, other)

    def __le__(self, other: tuple[int, ...]) -> bool:
        return not _is_before(other, self)

    def __ge__(self, other: tuple[int, ...]) -> bool:
        return not _is_before(self, other)


def _is_before(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return 0 < (_place(*other) - _place(*one)) % _YEAR < _YEAR // 2


def _place(month: int, day: int, second: int) -> int:
    """Seconds since the year began."""
    return (_BEFORE[(month - 1) % 12] + day - 1) * 86400 + second


def moments(data: bytes) -> Iterator[tuple[Moment, int]]:
    """The stamped lines: each one's time, and where in `data` it begins."""
    for match in _STAMP.finditer(data):
        if match["name"]:
            month, day = MONTHS.index(match["name"].decode()) + 1, int(match["date"])
        else:
            month, day = int(match["month"]), int(match["day"])
        yield Moment(month, day, _seconds(match["clock"].decode())), match.start()


def first_moment(data: bytes) -> Moment | None:
    return next((moment for moment, _ in moments(data)), None)


def parse_moment(text: str, day_of: Moment | None) -> Moment:
    """What somebody asks for: `11-29 15:30`, `2026-11-29 15:30:26`, or a clock alone, of the day of `day_of`.

    Raises ValueError.
    """
    match = _ASKED.match(text.strip())
    if not match or (not match["month"] and day_of is None):
        raise ValueError(f"{text!r} is no time: write MM-DD HH:MM[:SS]")
    if not match["month"]:
        assert day_of is not None
        return Moment(day_of.month, day_of.day, _seconds(match["clock"]))
    return Moment(int(match["month"]), int(match["day"]), _seconds(match["clock"]))


def _seconds(clock: str) -> int:
    parts = [int(part) for part in clock.split(":")]
    return parts[0] * 3600 + parts[1] * 60 + (parts[2] if len(parts) > 2 else 0)
