"""What a terminal shows of one line in the end, folded as the line's bytes come."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

CAP = 4 << 10
"""Bytes of a line that are shown; the log has the rest."""

_PREFIX = re.compile(rb"^\s*(?:(?:\x1b\[[0-9;]*m)*\([^()\r\n]{1,80} pid=\d+\)\s?(?:\x1b\[[0-9;]*m)*\s*)+$")


@dataclass(frozen=True)
class Drawn:
    """A line under way: what stands before its first carriage return, and what the last one left standing.

    A bar that redraws itself a million times costs as much as one that does so once.
    """

    size: int = 0
    """Bytes taken so far."""
    head: bytes = b""
    shown: bytes = b""
    """The last segment that was not blank."""
    segment: bytes = b""
    """Since the last carriage return."""
    returned: bool = False

    def feed(self, data: bytes) -> Drawn:
        pieces = data.split(b"\r")
        head, shown, segment, returned = self.head, self.shown, self.segment, self.returned
        for index, piece in enumerate(pieces):
            if index:
                if returned and segment.strip():
                    shown = segment
                segment, returned = b"", True
            if returned:
                segment = (segment + piece)[:CAP]
            else:
                head = (head + piece)[:CAP]
        return Drawn(self.size + len(data), head, shown, segment, returned)

    def text(self, whole: bool = False) -> str:
        """What to draw, not sanitised; `whole` when the line has ended. A worker's prefix stays before its bar."""
        last = self.segment if self.segment.strip() else self.shown
        if not last:
            raw = self.head
        elif _PREFIX.match(self.head):
            raw = self.head.rstrip() + b" " + last.lstrip()
        else:
            raw = last
        if len(raw) >= CAP:
            return _decode_open(raw) + " …"
        return raw.decode("utf-8", "replace") if whole else _decode_open(raw)


def _decode_open(raw: bytes) -> str:
    """Invalid bytes are shown; a character that the end cuts in two is not there yet."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(raw)
