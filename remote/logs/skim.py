"""Which lines of a block can matter, at the speed of a few passes over its bytes.

A log of gigabytes repeats a few hundred sentences with other numbers in them. Without the digits they are the same
bytes again, so each sentence is searched for literals once and remembered by its shape. What the literals say of a
shape holds for every line of that shape, because the digits are taken out of the literals as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import BytesIO

MAX_SHAPES = 8192
MAX_SHAPE_BYTES = 2048
"""Longer shapes are judged anew each time, so that what is remembered stays small."""

PLAIN = ord(".")
READ = ord("r")
BAR = ord("b")
TRACE = ord("t")

_DROPPED = b"0123456789."
_WOVEN = re.compile(rb" pid=\)(?:\x1b\[[;]*m)* +(?:\x1b\[[;]*m)*\(")
"""Two worker prefixes in a row, without their digits."""


class Shapes(dict[bytes, int]):
    """From a line without its digits to PLAIN, BAR or TRACE (nothing but a bar, a traceback is on it) or READ."""

    def __init__(self, traces: Iterable[bytes], bars: Iterable[bytes], others: Iterable[bytes]) -> None:
        super().__init__()
        self._traces, self._bars, self._others = _shapes(traces), _shapes(bars), _shapes(others)

    def __missing__(self, shape: bytes) -> int:
        kind = self._judge(shape)
        if len(shape) <= MAX_SHAPE_BYTES:
            if len(self) >= MAX_SHAPES:
                self.clear()
            self[shape] = kind
        return kind

    def _judge(self, shape: bytes) -> int:
        trace = any(token in shape for token in self._traces)
        bar = any(token in shape for token in self._bars)
        if (trace and bar) or any(token in shape for token in self._others) or _WOVEN.search(shape):
            return READ
        if trace or bar:
            return TRACE if trace else BAR
        # A carriage return inside a line can leave a prefix that the next update needs.
        return READ if b"\r" in shape.rstrip(b"\r\n") else PLAIN

    def kinds(self, block: bytes) -> bytes:
        """One byte for each line of a block of whole lines; PLAIN only where the digits cannot change that."""
        return bytes(map(self.__getitem__, BytesIO(block.translate(None, _DROPPED)).readlines()))


def _shapes(tokens: Iterable[bytes]) -> tuple[bytes, ...]:
    """The literals without their digits; those that hold another one are not needed."""
    shapes = sorted({token.translate(None, _DROPPED) for token in tokens}, key=len)
    return tuple(one for place, one in enumerate(shapes) if not any(other in one for other in shapes[:place]))
