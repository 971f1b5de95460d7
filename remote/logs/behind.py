"""The last lines before one: an exception that was never raised is known only by the words that come after it."""

from __future__ import annotations

from typing import NamedTuple

MAX_BYTES = 1000
CHAIN = b"he above exception"
"""Stands in the words between two tracebacks of a chain."""


class Behind(NamedTuple):
    """A whole line without its line feed; empty for one that is longer than MAX_BYTES."""

    data: bytes
    offset: int


NOTHING = (Behind(b"", 0), Behind(b"", 0))
Pair = tuple[Behind, Behind]
"""The last line and, before it, the last but one."""


def last_two(piece: bytes, end: int, offset: int, earlier: Pair) -> Pair:
    """The two lines before `end`, where a line begins. `piece` begins at `offset`, behind the two lines `earlier`."""
    if not end:
        return earlier
    one = piece.rfind(b"\n", 0, end - 1) + 1
    last = _line(piece, one, end - 1, offset)
    if not one:
        return earlier[1], last
    two = piece.rfind(b"\n", 0, one - 1) + 1
    return _line(piece, two, one - 1, offset), last


def _line(piece: bytes, start: int, end: int, offset: int) -> Behind:
    return Behind(piece[start:end] if end - start <= MAX_BYTES else b"", offset + start)
