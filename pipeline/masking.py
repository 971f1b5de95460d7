"""The loss mask of a sample, found in its token ids alone.

Characters are never compared and no offsets are asked for: slow tokenizers, Kimi's among them, have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class MaskError(ValueError):
    """Why a conversation cannot become token ids and a mask; what to do about it, after a semicolon."""


@dataclass(frozen=True)
class Marks:
    """Token ids by which the assistant's turns are known."""

    header: tuple[int, ...]
    """Before what the assistant says."""
    ends: tuple[int, ...]
    """Any of them ends the turn and belongs to it."""
    openings: tuple[tuple[int, ...], ...] = ()
    """What may stand after a header and is not said by the assistant: an empty reasoning, or an open one that the
    prompt ended with. The longest that fits counts."""

    @classmethod
    def of(cls, header: Sequence[int], ends: Sequence[int], openings: Sequence[Sequence[int]] = ()) -> Marks:
        longest_first = sorted({tuple(ids) for ids in openings if ids}, key=len, reverse=True)
        return cls(tuple(header), tuple(ends), tuple(longest_first))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Marks:
        return cls.of(data["header"], data["ends"], data["openings"])

    def to_json(self) -> dict[str, Any]:
        return {"header": self.header, "ends": self.ends, "openings": self.openings}


def turns(token_ids: Sequence[int], marks: Marks) -> Iterator[range]:
    """Positions of what the assistant says, a range a turn, its end-of-turn token included.

    A turn that a cut left without its end reaches to the last token. Of an opening that was cut, nothing is said.
    """
    ids, size, place = tuple(token_ids), len(marks.header), 0
    ends = frozenset(marks.ends)
    while place + size <= len(ids):
        if ids[place] != marks.header[0] or ids[place : place + size] != marks.header:
            place += 1
            continue
        start = place = place + size
        behind = (ids[start : start + len(o)] for o in marks.openings)  # shorter than the opening where a cut is
        start += next((len(b) for b, o in zip(behind, marks.openings, strict=True) if b == o[: len(b)]), 0)
        place = next((k + 1 for k in range(start, len(ids)) if ids[k] in ends), len(ids))
        yield range(start, place)


def mask(token_ids: Sequence[int], marks: Marks) -> list[int]:
    """1 on what the assistant says, else 0; as long as `token_ids`."""
    found = [0] * len(token_ids)
    for turn in turns(token_ids, marks):
        found[turn.start : turn.stop] = [1] * len(turn)
    return found
