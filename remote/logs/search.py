"""Search in a log of any size, forth or back, block by block: what matches, and where to go on from.

Lines are matched as they lie in the file. A line longer than a block is matched in pieces that overlap.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from remote.logs.index import Read

BLOCK = 1 << 20
OVERLAP = 4 << 10
EXCERPT = 400
"""Bytes shown of a matching line, around the match."""
MAX_HITS = 200
MAX_PATTERN = 1000

_SPECIAL = frozenset(r"\.^$*+?{}[]|()")
_BYTE = re.compile(r"\\[x0-9]")
"""A byte by its number, which may be that of a capital."""


class BadPattern(ValueError):
    """The pattern is no regular expression; the message says where it breaks."""


@dataclass(frozen=True)
class Hit:
    """A line that matches, once however often it does."""

    offset: int
    """Of the line's first byte; of the piece's in a very long line."""
    text: str


@dataclass(frozen=True)
class Found:
    """`next`: where to go on searching in the same direction; None when the log's end, or start, was reached."""

    hits: tuple[Hit, ...]
    next: int | None


Finder = Callable[[bytes], Iterator[int]]
"""Where the matches begin in a block, rising."""


def pattern_finder(pattern: str, ignore_case: bool = False) -> Finder:
    """Finds a regular expression. Raises BadPattern."""
    if len(pattern) > MAX_PATTERN:
        raise BadPattern(f"the pattern is longer than {MAX_PATTERN} characters")
    # In a block made lower case, a pattern in lower case is found several times faster than without regard to case.
    lower = ignore_case and pattern == pattern.lower() and not _BYTE.search(pattern)
    try:
        compiled = re.compile(pattern.encode(), re.MULTILINE | (re.IGNORECASE if ignore_case and not lower else 0))
    except (re.error, RecursionError, OverflowError) as error:
        raise BadPattern(f"{pattern!r} is no regular expression: {error}") from None
    if compiled.match(b""):
        raise BadPattern(f"{pattern!r} matches nothing at all, and so every line")
    words = pattern.encode() if _SPECIAL.isdisjoint(pattern) and (lower or not ignore_case) else b""

    def find(block: bytes) -> Iterator[int]:
        block = block.lower() if lower else block
        return _places(block, words) if words else (match.start() for match in compiled.finditer(block))

    return find


def _places(block: bytes, words: bytes) -> Iterator[int]:
    at = block.find(words)
    while at >= 0:
        yield at
        at = block.find(words, at + len(words))


def search(
    read: Read, size: int, find: Finder, start: int, back: bool = False, limit: int = MAX_HITS, seconds: float = 2.0
) -> Found:
    """Matching lines from `start` on, nearest first; with `back` those that begin before it. Stops after `seconds`.

    At least one block is searched however long that takes: a pattern of catastrophic cost must be stopped from outside.
    """
    end = time.monotonic() + seconds
    hits: list[Hit] = []
    for block, offset, resume in _blocks_back(read, start) if back else _blocks(read, start, size):
        found = list(_lines(block, offset, find))
        for hit in reversed(found) if back else found:
            hits.append(hit)
            if len(hits) >= limit:
                return Found(tuple(hits), hit.offset if back else _behind(block, offset, hit))
        if time.monotonic() >= end:
            return Found(tuple(hits), resume)
    return Found(tuple(hits), None)


def _lines(block: bytes, offset: int, find: Finder) -> Iterator[Hit]:
    behind = -1
    for at in find(block):
        if at < behind:
            continue
        first = block.rfind(b"\n", 0, at) + 1
        behind = block.find(b"\n", at) + 1 or len(block)
        begin = max(first, min(at - EXCERPT // 4, behind - EXCERPT))
        yield Hit(offset + first, block[begin : begin + EXCERPT].split(b"\n")[0].decode("utf-8", "replace"))


def _behind(block: bytes, offset: int, hit: Hit) -> int:
    return offset + (block.find(b"\n", hit.offset - offset) + 1 or len(block))


def _blocks(read: Read, start: int, size: int) -> Iterator[tuple[bytes, int, int | None]]:
    """Whole lines forth: bytes, their offset, where the next block begins (None: nowhere)."""
    at = start
    while at < size:
        data = read(at, BLOCK)
        last = not data or at + len(data) >= size
        cut = len(data) if last else data.rfind(b"\n") + 1
        following = at + (cut or max(1, len(data) - OVERLAP))
        yield data[: cut or len(data)], at, None if last else following
        if last:
            return
        at = following


def _blocks_back(read: Read, end: int) -> Iterator[tuple[bytes, int, int | None]]:
    """Whole lines back, up to `end`, which is a line's start or the log's end."""
    while end > 0:
        at = max(0, end - BLOCK)
        data = read(at, end - at)
        cut = data.find(b"\n", 0, len(data) - 1) + 1 if at else 0
        yield data[cut:], at + cut, at + cut or None
        end = at + cut if cut or not at else at + OVERLAP
