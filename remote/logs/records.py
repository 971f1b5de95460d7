"""Bytes to segments: lines and carriage-return updates, each with its exact place in the stream.

A segment ends at a line feed, at a carriage return, or at both. vLLM joins the lines of one log record with
CR LF and ends the record with a bare LF, so the ending is kept: it says whether the record goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

HEAD_BYTES = 60 * 1024
TAIL_BYTES = 4 * 1024
"""What is kept of a longer segment: its head and its tail, so that memory stays bounded."""
_CUT = " … ".encode()
"""Stands for what is left out, so that no word arises where the head and the tail meet."""

_ESCAPES = re.compile(
    rb"(?:\x1b|#033)\[[0-?]*[ -/]*[@-~]"  # colours and cursor moves, also as syslog writes them
    rb"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links
    rb"|\x1b[@-Z\\^_]"
)


class Segment(NamedTuple):
    """One piece of a line, still in bytes. `line` counts from 1, `offset` is that of the line's first byte."""

    data: bytes
    line: int
    offset: int
    first: bool
    """Nothing stands before it on its line."""
    end: str
    """newline, crlf, return (the cursor went back to the line's start), or cut (the log ends here)."""


def clean(data: bytes) -> str:
    """Text without escapes and NULs; invalid UTF-8 becomes U+FFFD."""
    if b"\x1b" in data or b"#033[" in data:
        data = _ESCAPES.sub(b"", data)
    if b"\0" in data:
        data = data.replace(b"\0", b"")
    return data.decode("utf-8", "replace")


class Splitter:
    """Cuts a byte stream into segments, the same ones whatever the chunks it arrives in."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self.lines_read = 0
        self._pending = bytearray()
        self._dropped = 0
        self._line_offset = 0
        self._position = 0
        self._first = True

    @property
    def writing(self) -> bool:
        """A line was begun and has not ended."""
        return bool(self._pending) or self.mid_line

    @property
    def mid_line(self) -> bool:
        """Part of the line being written was given out or dropped already."""
        return not self._first or self._dropped > 0

    @property
    def bytes_passed(self) -> int:
        """Offset of the line that comes next."""
        return self._line_offset

    def complete(self, data: bytes) -> bytes:
        """The line being written, which ends with `data`; to be given to `line`."""
        whole = bytes(self._pending) + data
        self._pending.clear()
        return whole

    def keep(self, data: bytes) -> None:
        """The beginning of a line, or more of it."""
        self._pending += data

    def line(self, line: bytes) -> Iterator[Segment]:
        """The segments of the next whole line, given without its line feed."""
        size = len(line) + self._dropped + 1
        if b"\r" in line:
            body = line.rstrip(b"\r")
            *updates, last = body.split(b"\r")
            for update in updates:
                yield self._segment(update, "return")
                self._first = False
            yield self._segment(last, "newline" if body == line else "crlf")
        else:
            yield self._segment(line, "newline")
        self._dropped = 0
        self._position += size
        self._line_offset = self._position
        self._first = True
        self.lines_read += 1

    def move_to(self, lines: int, offset: int) -> None:
        """The next line begins at `offset`, behind so many lines; those not given to `line` are passed over."""
        self.lines_read = lines
        self._line_offset = self._position = offset

    def updates(self) -> Iterator[Segment]:
        """Updates of a bar that is redrawn in place arrive long before their line ends."""
        yield from self._returns()
        self._shrink()

    def tail(self) -> bytes:
        """The segment still being written, without its ending."""
        return bytes(self._pending)

    def finish(self) -> Iterator[Segment]:
        data = bytes(self._pending)
        self._pending.clear()
        if data:
            self.lines_read += 1
            yield self._segment(data.rstrip(b"\r"), "cut")

    def _returns(self) -> Iterator[Segment]:
        if b"\r" not in self._pending:
            return
        # A return at the very end may be half of CR LF, so it waits for the next byte.
        cut = bytes(self._pending).rstrip(b"\r").rfind(b"\r") + 1
        if not cut:
            return
        *updates, _ = bytes(self._pending[:cut]).split(b"\r")
        del self._pending[:cut]
        self._position += cut + self._dropped
        self._dropped = 0
        for update in updates:
            yield self._segment(update, "return")
            self._first = False

    def _shrink(self) -> None:
        if len(self._pending) <= HEAD_BYTES + TAIL_BYTES:
            return
        body = bytes(self._pending).rstrip(b"\r")
        returns = len(self._pending) - len(body)
        kept = body
        if len(body) > HEAD_BYTES + TAIL_BYTES:
            kept = body[:HEAD_BYTES] + _CUT + body[-TAIL_BYTES:]
        kept += b"\r" * min(returns, 1)
        self._dropped += len(self._pending) - len(kept)
        self._pending = bytearray(kept)

    def _segment(self, data: bytes, end: str) -> Segment:
        if len(data) > HEAD_BYTES + TAIL_BYTES:
            data = data[:HEAD_BYTES] + _CUT + data[-TAIL_BYTES:]
        return Segment(data, self.lines_read + (end != "cut"), self._line_offset, self._first, end)
