"""What a saved state of the reader is made of."""

from __future__ import annotations

from typing import TypeVar

from remote.logs import (
    behind,
    clock,
    continued,
    fatal,
    findings,
    fold,
    layouts,
    pace,
    phases,
    prefixes,
    progress,
    ray,
    records,
    state,
    streams,
    tracebacks,
    weave,
    wrapping,
)

_PARTS = (
    behind,
    clock,
    continued,
    fatal,
    findings,
    fold,
    layouts,
    pace,
    phases,
    prefixes,
    progress,
    ray,
    records,
    streams,
    tracebacks,
    weave,
    wrapping,
)
_METHODS = frozenset({"add", "_next", "fit", "_extraction"})
"""The methods that parts of the reader hand to one another."""

Reader = TypeVar("Reader")


def save(reader: object) -> bytes:
    return state.Saver(_classes(type(reader)), _METHODS).save(reader)


def restore(kind: type[Reader], data: bytes) -> Reader:
    """A reader of that class. Raises StateError for anything else."""
    reader = state.Restorer(_classes(kind), _METHODS).restore(data)
    if not isinstance(reader, kind):
        raise state.StateError("The saved state holds no log reader: read the log anew.")
    return reader


def _classes(kind: type) -> dict[str, type]:
    return {**state.classes_of(_PARTS), kind.__name__: kind}
