"""The findings of one attempt's log, read piece by piece; a long log is read once, whoever looks at it later."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

from remote.agent import files
from remote.agent.layout import Attempt
from remote.agent.reader_state import OVERLAP, put_away, take_up
from remote.logs.findings import Findings

if TYPE_CHECKING:
    from remote.logs.reader import LogReader

LOG_STEP = 1 << 18
"""Bytes of log taken in at a time: small enough that the agent answers in between."""
KEEP_EVERY = 64 << 20
"""Bytes read between two times that the reader's state is kept: so much is read again at most."""
TICK = 1.0
"""Seconds between two times that the reader of a silent log is told how late it is."""


class LogFindings:
    """Reads on where it, or an agent before it, stopped."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._reset("")

    def _reset(self, identity: str, restarted: str = "") -> None:
        from remote.logs.reader import LogReader

        self._reader: LogReader = LogReader(restarted=restarted)
        self._id = identity
        self._offset = 0
        self._kept_at = 0
        self._told_at = 0.0
        self._finished = False
        self.findings = Findings()

    def read(self, over: bool) -> bool:
        """Take in at most LOG_STEP new bytes. True when there are more. `over`: nothing more will be written."""
        if self._finished:
            return False
        data = b""
        with contextlib.suppress(OSError):
            fd = files.open_read(self._attempt.log)
            try:
                self._place(fd)
                data = os.pread(fd, LOG_STEP, self._offset)
            finally:
                os.close(fd)
        now = time.time()
        if data:
            self._take(data, now)
        elif over:
            self._reader.finish()
            self._finished = True
        elif now - self._told_at >= TICK:
            self._reader.feed(b"", at=now)
            self._told_at = now
        else:
            return False
        self.findings = self._reader.findings()
        return bool(data)

    def _place(self, fd: int) -> None:
        """Make sure that the open log goes on where the reader stands."""
        seen = os.fstat(fd)
        identity = files.file_id(seen)
        if not self._id:
            reader, offset, restarted = take_up(self._attempt, fd)
            self._reset(identity, restarted)
            if reader is not None:
                self._reader, self._offset, self._kept_at = reader, offset, offset
        elif identity != self._id:
            self._reset(identity, "rotated")
        elif seen.st_size < self._offset or not self._goes_on(fd):
            self._reset(identity, "truncated")

    def _take(self, data: bytes, now: float) -> None:
        self._reader.feed(data, at=now)
        self._told_at = now
        self._offset += len(data)
        if self._offset - self._kept_at >= KEEP_EVERY:
            put_away(self._attempt, self._reader, self._id, self._offset)
            self._kept_at = self._offset

    def _goes_on(self, fd: int) -> bool:
        """False when what stands before our place is not what was read: truncated, and grown again since."""
        before = min(OVERLAP, self._offset)
        return before == 0 or self._reader.follows(os.pread(fd, before, self._offset - before))
