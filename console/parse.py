"""`eyas parse`: any log on this machine read to its end, in pieces, and what was found in it as JSON.

Nothing here needs a project, a host or a screen, and nothing of theirs is imported.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from console.errors import UserError
from remote.logs.findings import UNKNOWN, Findings, Frame, Traceback
from remote.logs.reader import LogReader
from remote.logs.utf16 import ToUtf8
from remote.wire import to_wire

STANDARD_INPUT = "-"
PIECE = 4 << 20
"""Bytes read at a time, so that a log of any size takes the same memory."""
CLEAN, FAILED, UNREADABLE = 0, 1, 2
"""Exit statuses of the command."""
_WARNINGS = frozenset({"hang_warning"})
"""Findings that a log of a run that went well may hold."""


def read_log(name: str) -> Findings:
    """Findings of a file, gzip or plain, or of standard input (`-`), which a keyboard interrupt ends.

    Of a log in UTF-16 the line numbers hold, byte offsets are not known (-1).
    Raises UserError when it cannot be read to its end.
    """
    reader, text = LogReader(), ToUtf8()
    try:
        with _opened(name) as source:
            for piece in _pieces(source, interruptible=name == STANDARD_INPUT):
                reader.feed(text.feed(piece))
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{shown_name(name)} cannot be read: {reason}.") from None
    reader.feed(text.finish())
    found = reader.finish()
    return found if text.encoding == "utf-8" else _without_offsets(found, text.bytes_read)


def _without_offsets(found: Findings, size: int) -> Findings:
    """The offsets are those of the text in UTF-8, where they are no place in the log."""
    tracebacks = tuple(replace(traceback, offset=UNKNOWN) for traceback in found.tracebacks)
    return replace(found, tracebacks=tracebacks, bytes_read=size)


def shown_name(name: str) -> str:
    return "standard input" if name == STANDARD_INPUT else name


@contextlib.contextmanager
def _opened(name: str) -> Iterator[io.BufferedIOBase]:
    with contextlib.ExitStack() as stack:
        plain = sys.stdin.buffer if name == STANDARD_INPUT else stack.enter_context(Path(name).open("rb"))
        assert isinstance(plain, io.BufferedReader)
        packed = plain.peek(2)[:2] == b"\x1f\x8b"
        yield gzip.GzipFile(fileobj=plain) if packed else plain


def _pieces(source: io.BufferedIOBase, interruptible: bool) -> Iterator[bytes]:
    try:
        while piece := source.read1(PIECE):  # what a pipe has now, rather than a full piece later
            yield piece
    except KeyboardInterrupt:
        if not interruptible:
            raise


def exit_status(found: Findings) -> int:
    """FAILED when the log tells of a failure, whether or not its cause was found."""
    failed = (
        bool(found.tracebacks)
        or any(death.kind not in _WARNINGS for death in found.fatal)
        or not all(stall.ended for stall in found.stalls)
    )
    return FAILED if failed else CLEAN


def as_json(name: str, found: Findings) -> dict[str, Any]:
    """Everything found in one log. One-off figures stand among `progress` too, without done and total."""
    body: dict[str, Any] = to_wire(found)
    figures = [
        {**milestone, "done": None, "total": None, "percent": None, "eta_s": None} for milestone in body["milestones"]
    ]
    return {
        "file": shown_name(name),
        **body,
        "tracebacks": [_traceback(traceback) for traceback in found.tracebacks],
        "progress": body["progress"] + figures,
    }


def _traceback(traceback: Traceback) -> dict[str, Any]:
    return {
        **to_wire(traceback),
        "headline": traceback.headline,
        "message_first_line": traceback.message_first_line,
        "innermost": to_wire(traceback.innermost),
        "repeated_by": traceback.processes,
        "patches": [{"patch": patch, "why": why} for patch, why in patches(traceback)],
    }


def patches(traceback: Traceback) -> tuple[tuple[str, str], ...]:
    """Ids of the compat patches that mend it, each with the reason; the likeliest first."""
    from compat.matcher import match

    frames: tuple[Frame, ...] = traceback.frames
    found = match(traceback.exception_type, traceback.message, frames)
    return tuple((fitting.patch, fitting.why) for fitting in found)
