"""What the bytes of a block alone tell of its lines, whatever came before: which of them can matter, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from itertools import accumulate
from typing import NamedTuple

from remote.logs import signs
from remote.logs.skim import PLAIN, Shapes

PIECE_BYTES = 128 * 1024
"""A block is looked at in pieces that the processor's cache can hold."""

_SHAPES = Shapes(signs.TOKENS, woven=signs.WOVEN, bar=signs.BAR)
"""Shared by all readers: it remembers sentences, not logs."""
_NOT_PLAIN = re.compile(b"[^%c]" % PLAIN)


class Outline(NamedTuple):
    """Of one piece, which holds whole lines only."""

    kinds: bytes
    """One for each line, as `Shapes.kinds` gives them."""
    places: list[int]
    """Numbers of the lines that are not plain, from 0."""
    spans: list[tuple[int, int]]
    """Where these lie in the piece, without their line feeds."""


def outline_of(piece: bytes) -> Outline:
    kinds = _SHAPES.kinds(piece)
    places = [found.start() for found in _NOT_PLAIN.finditer(kinds)]
    if not places:
        return Outline(kinds, [], [])
    starts = [*accumulate(map(len, BytesIO(piece).readlines()), initial=0)]
    return Outline(kinds, places, [(starts[place], starts[place + 1] - 1) for place in places])


def cuts(block: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and stop of each piece between two beginnings of lines."""
    while start < end:
        stop = block.rfind(b"\n", start, start + PIECE_BYTES) + 1 or block.index(b"\n", start + PIECE_BYTES) + 1
        yield start, stop
        start = stop
