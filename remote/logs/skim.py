"""Which lines of a block can matter, at the speed of a few passes over its bytes.

A log of gigabytes repeats a few hundred sentences with other numbers in them. Without the digits they are the same
bytes again, so each sentence is searched for literals once and remembered by its shape. What the literals say of a
shape holds for every line of that shape, because the digits are taken out of the literals as well. The bars differ in
their blanks and blocks too: with those gone, the updates of one line are the same bytes over and over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from io import BytesIO

MAX_SHAPES = 8192
MAX_SHAPE_BYTES = 2048
"""Longer shapes are judged anew each time, so that what is remembered stays small."""

PLAIN = 0
UPDATES = 128
"""The line shows updates of one bar, and nothing else."""
RETURN = 64
"""A carriage return inside a line can leave a prefix that the next update needs."""

_DIGITS = b"0123456789."
_BLANKS = b" :?" + b"\xe2\x96" + bytes(range(0x88, 0x90))
"""What else an update changes: blanks, colons, an unknown rate, and the bytes of the blocks U+2588 to U+258F."""
_WOVEN = re.compile(rb" pid=\)(?:\x1b\[[;]*m)* +(?:\x1b\[[;]*m)*\(")
"""Two worker prefixes in a row, without their digits."""
_COLOUR = rb"(?:\x1b\[;*m)?"
_PREFIX = _COLOUR + rb"\([A-Za-z_]\w*pid=\)" + _COLOUR
_LEAD = re.compile(rb"(?:" + _PREFIX + rb")?\Z")
_UPDATE = re.compile(
    rb"(?:" + _PREFIX + rb")?[A-Za-z][^%|\r\n]{0,200}(?:%Completed\||%\|[^|%\r\n]{0,200}\|)/\[<,[^\],\r\n]{1,40}\]\Z"
)
"""One update of a bar, without digits and blanks."""


class Shapes(dict[bytes, int]):
    """From a line without its digits to what may be on it: the signs that it may bear, RETURN, or UPDATES alone."""

    def __init__(self, tokens: Mapping[int, Iterable[bytes]], woven: int, bar: int) -> None:
        """`tokens`: the literals of each sign; `woven`, `bar`: the signs of two prefixes in a row and of a bar."""
        super().__init__()
        self._tokens = {sign: _shapes(literals) for sign, literals in tokens.items()}
        self._woven = woven
        self._updates = _Updates(token for sign, some in self._tokens.items() if sign != bar for token in some)

    def __missing__(self, shape: bytes) -> int:
        if shape.startswith((b"%|", b"% Completed"), shape.find(b"%")):
            return UPDATES if self._updates[_once(shape) or shape.translate(None, _BLANKS)] else self._judge(shape)
        kind = self._judge(shape)
        if len(shape) <= MAX_SHAPE_BYTES:
            if len(self) >= MAX_SHAPES:
                self.clear()
            self[shape] = kind
        return kind

    def _judge(self, shape: bytes) -> int:
        kind = RETURN if b"\r" in shape.rstrip(b"\r\n") else PLAIN
        for sign, tokens in self._tokens.items():
            if any(token in shape for token in tokens):
                kind |= sign
        return kind | self._woven if _WOVEN.search(shape) else kind

    def kinds(self, block: bytes) -> bytes:
        """One byte for each line of a block of whole lines; PLAIN only where the digits cannot change that."""
        return bytes(map(self.__getitem__, BytesIO(block.translate(None, _DIGITS)).readlines()))


def _once(shape: bytes) -> bytes:
    """The line with its update said once, without blanks; b"" unless it is the same bytes over and over."""
    start = shape.find(b"\r")
    stop = shape.find(b"\r", start + 1)
    if start < 0 or stop < 0:
        return b""
    times, rest = divmod(len(shape) - 1 - start, stop - start)
    if rest or not shape.endswith(shape[start:stop] * times + b"\n"):
        return b""
    return shape[:stop].translate(None, _BLANKS)


class _Updates(dict[bytes, bool]):
    """Whether a line, without digits and blanks, is nothing but updates of one bar."""

    def __init__(self, others: Iterable[bytes]) -> None:
        super().__init__()
        self._others = tuple(token.translate(None, _BLANKS) for token in others)

    def __missing__(self, shape: bytes) -> bool:
        lead, *updates = shape.removesuffix(b"\n").split(b"\r")
        if not updates or not _LEAD.match(lead):
            updates = [lead, *updates]
        one = updates[0]
        pure = (
            updates.count(one) == len(updates)
            and _UPDATE.match(one) is not None
            and not any(token in one for token in self._others)
        )
        if len(shape) <= MAX_SHAPE_BYTES:
            if len(self) >= MAX_SHAPES:
                self.clear()
            self[shape] = pure
        return pure


def _shapes(tokens: Iterable[bytes]) -> tuple[bytes, ...]:
    """The literals without their digits; those that hold another one are not needed."""
    shapes = sorted({token.translate(None, _DIGITS) for token in tokens}, key=len)
    return tuple(one for place, one in enumerate(shapes) if not any(other in one for other in shapes[:place]))
