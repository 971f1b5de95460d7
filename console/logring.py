"""The end of one log as the console holds it: bounded, exact to the byte, whatever pieces the bytes come in."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from console.sanitise import sanitise

BLOCK = 256
"""Lines a block: appending copies one block at most, dropping drops whole ones."""
KEEP = 20_000
LINE_CAP = 4096
"""Bytes of a line that are shown; the host has the rest."""

_PREFIX = re.compile(rb"^\s*(?:(?:\x1b\[[0-9;]*m)*\([^()\r\n]{1,80} pid=\d+\)\s?(?:\x1b\[[0-9;]*m)*\s*)+$")


class LogLine(NamedTuple):
    offset: int
    """Of its first byte in the log."""
    text: str
    """Safe to draw."""


@dataclass(frozen=True)
class LogKey:
    run: str
    stage: str
    attempt: int


@dataclass(frozen=True)
class Partial:
    """A line under way, folded as it comes: what stands before its first CR, and what the last CR left standing.

    A bar that redraws itself a million times costs as much as one that does so once.
    """

    size: int = 0
    head: bytes = b""
    shown: bytes = b""
    """The last CR segment that was not blank."""
    segment: bytes = b""
    """Since the last CR."""
    returned: bool = False

    def feed(self, data: bytes) -> Partial:
        pieces = data.split(b"\r")
        head, shown, segment, returned = self.head, self.shown, self.segment, self.returned
        for index, piece in enumerate(pieces):
            if index:
                if returned and segment.strip():
                    shown = segment
                segment, returned = b"", True
            if returned:
                segment = (segment + piece)[:LINE_CAP]
            else:
                head = (head + piece)[:LINE_CAP]
        return Partial(self.size + len(data), head, shown, segment, returned)

    def text(self, whole: bool = False) -> str:
        """What to draw; `whole` when the newline has come."""
        last = self.segment if self.segment.strip() else self.shown
        if not last:
            raw = self.head
        elif _PREFIX.match(self.head):
            raw = self.head.rstrip() + b" " + last.lstrip()
        else:
            raw = last
        if len(raw) >= LINE_CAP:
            return sanitise(_decode_open(raw) + " …")
        return sanitise(raw.decode("utf-8", "replace") if whole else _decode_open(raw))


@dataclass(frozen=True)
class LogTail:
    """Lines `first_line` … of one attempt's log, and the byte that is expected next."""

    key: LogKey | None = None
    tail: str = ""
    """Name of the subscription that feeds it."""
    log_id: str | None = None
    next_offset: int = 0
    blocks: tuple[tuple[LogLine, ...], ...] = ()
    partial: Partial = Partial()
    dropped: int = 0
    """Lines that were held and had to go."""
    skipped_bytes: int = 0
    """Bytes before the first one asked for: those lines were never counted, so line numbers are not known."""
    ended: bool = False
    note: str = ""
    """What happened to the file itself: truncated, replaced."""

    @property
    def held(self) -> int:
        """Whole lines held."""
        return (len(self.blocks) - 1) * BLOCK + len(self.blocks[-1]) if self.blocks else 0

    @property
    def rows(self) -> int:
        """Lines held, the one under way included."""
        return self.held + (1 if self.partial.size else 0)

    def row(self, index: int) -> LogLine:
        """The line `index` of those held, from 0."""
        if index >= self.held:
            return LogLine(self.next_offset - self.partial.size, self.partial.text())
        return self.blocks[index // BLOCK][index % BLOCK]

    def lines(self) -> Iterator[LogLine]:
        return (self.row(index) for index in range(self.rows))

    def row_at(self, offset: int) -> int | None:
        """The held line that holds the byte `offset`, None when it is not held."""
        if not self.rows or offset < self.row(0).offset or offset >= self.next_offset:
            return None
        return bisect_right(range(self.rows), offset, key=lambda i: self.row(i).offset) - 1

    def number(self, index: int) -> int | None:
        """Line number in the log, from 1; None when the log was not read from its start."""
        return None if self.skipped_bytes else self.dropped + index + 1

    @classmethod
    def open(cls, key: LogKey, tail: str, offset: int = 0) -> LogTail:
        """An empty tail that expects the byte `offset` first."""
        return cls(key=key, tail=tail, next_offset=offset, skipped_bytes=offset)

    def feed(self, offset: int, log_id: str | None, data: bytes) -> LogTail:
        """Take bytes that stand at `offset` of the log. What was had already is not taken twice."""
        tail = self
        if log_id is not None and self.log_id is not None and log_id != self.log_id:
            tail = replace(LogTail.open(self.key or LogKey("", "", 0), self.tail, offset), note="the log was replaced")
        elif offset > tail.next_offset:
            gap = offset - tail.next_offset
            tail = tail._take(f"… {gap} bytes are missing here …\n".encode(), mark=True)
            tail = replace(tail, next_offset=offset, skipped_bytes=tail.skipped_bytes or gap)
        elif offset < tail.next_offset:
            data = data[tail.next_offset - offset :]
        return replace(tail._take(data), log_id=log_id or tail.log_id)

    def truncated(self, size: int) -> LogTail:
        """The file was cut to `size` bytes on the host: start again from there."""
        empty = LogTail.open(self.key or LogKey("", "", 0), self.tail, size)
        return replace(empty, log_id=self.log_id, note="the log was truncated on the host")

    def _take(self, data: bytes, mark: bool = False) -> LogTail:
        if not data:
            return self
        *whole, rest = data.split(b"\n")
        fresh: list[LogLine] = []
        start, partial = self.next_offset - self.partial.size, self.partial
        for piece in whole:
            size = partial.size + len(piece) + 1
            if partial.size or b"\r" in piece or len(piece) >= LINE_CAP:
                text = partial.feed(piece).text(whole=True)
            else:
                text = sanitise(piece.decode("utf-8", "replace"))
            fresh.append(LogLine(start, text))
            start, partial = start + (0 if mark else size), Partial()
        blocks, gone = _append(self.blocks, fresh)
        return replace(
            self,
            blocks=blocks,
            dropped=self.dropped + gone,
            partial=partial.feed(rest) if rest else partial,
            next_offset=self.next_offset + (0 if mark else len(data)),
        )


def _append(
    blocks: tuple[tuple[LogLine, ...], ...], fresh: list[LogLine]
) -> tuple[tuple[tuple[LogLine, ...], ...], int]:
    if not fresh:
        return blocks, 0
    if blocks and len(blocks[-1]) < BLOCK:
        fresh = [*blocks[-1], *fresh]
        blocks = blocks[:-1]
    blocks += tuple(tuple(fresh[i : i + BLOCK]) for i in range(0, len(fresh), BLOCK))
    spare = max(0, len(blocks) - 1 - KEEP // BLOCK)
    return blocks[spare:], spare * BLOCK


def _decode_open(raw: bytes) -> str:
    """Invalid bytes are shown; a character that the end cuts in two is not there yet."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(raw)
