"""What is kept of a log's reader between two agents: its state at a byte offset, in a file beside the log.

The file is a cache: written whole or not at all, never waited for, and read anew from the log whenever it does not
fit. It holds the log's identity and whose code wrote it: a mended reader reads every log again.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from typing import TYPE_CHECKING, Literal

from remote.agent import files
from remote.agent.launch import CODE
from remote.agent.layout import Attempt

if TYPE_CHECKING:
    from remote.logs.reader import LogReader

FORMAT = 1
OVERLAP = 64
"""Bytes before the offset that must be what was read there."""

Restored = tuple["LogReader | None", int, Literal["", "rotated", "truncated"]]


def put_away(attempt: Attempt, reader: LogReader, log_id: str, offset: int) -> None:
    """Keep the reader as it is at `offset`. A full disk or a folder that cannot be written keeps what was there."""
    head = {"v": FORMAT, "log_id": log_id, "offset": offset, "code": os.path.basename(CODE)}
    fresh = f"{attempt.reader}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            files.write_all(fd, json.dumps(head).encode() + b"\n" + reader.save())
        finally:
            os.close(fd)
        os.rename(fresh, attempt.reader)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(fresh)


def take_up(attempt: Attempt, log: int) -> Restored:
    """The reader that was kept for the open file `log`, its offset, and why the log is to be read anew if it is."""
    from remote.logs.reader import LogReader
    from remote.logs.state import MAX_STATE, StateError

    try:
        with open(files.open_read(attempt.reader), "rb") as source:
            head = json.loads(source.readline(4096))
            if (head["v"], head["code"]) != (FORMAT, os.path.basename(CODE)):
                return None, 0, ""
            log_id, offset = str(head["log_id"]), int(head["offset"])
            reader = LogReader.restore(source.read(MAX_STATE + 1))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, StateError):
        return None, 0, ""
    if offset != reader.findings().bytes_read:
        return None, 0, ""
    seen = os.fstat(log)
    if log_id != files.file_id(seen):
        return None, 0, "rotated"
    before = min(OVERLAP, offset)
    if seen.st_size < offset or not reader.follows(os.pread(log, before, offset - before)):
        return None, 0, "truncated"
    return reader, offset, ""
