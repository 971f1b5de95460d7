"""Tails of stage logs: resumable by (dev:inode, offset), paid for with credit, one small piece at a time."""

from __future__ import annotations

import base64
import errno
import os
import stat
from collections import deque
from collections.abc import Callable
from typing import Any

from remote import protocol
from remote.agent import files
from remote.agent.layout import Attempt
from remote.protocol import RemoteError

CHECK_EVERY = 0.5
"""Seconds between two looks at whether the attempt is over, or its log another file."""


class Tail:
    """One log on its way to the console."""

    def __init__(
        self,
        name: Any,
        attempt: Attempt,
        offset: int,
        log_id: str | None,
        credit: int,
        follow: bool,
        over: Callable[[Attempt], bool],
    ) -> None:
        """`over` says whether an attempt will write no more. Raises RemoteError for a log that is no plain file."""
        self.name = name
        self.attempt = attempt
        self.credit = credit
        self._path = attempt.log
        self._offset = offset
        self._id = log_id
        self._follow = follow
        self._over = over
        self._fd: int | None = None
        self._checked = 0.0
        self._events: deque[dict[str, Any]] = deque()
        self._open()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def next(self) -> dict[str, Any] | None:
        """The next push, None when there is nothing to send now. After END the tail is done."""
        if self._events:
            return self._events.popleft()
        piece = self._piece()
        if piece is not None or (self.credit <= 0 and self._behind()):
            return piece
        return self._at_end()

    def _behind(self) -> bool:
        return self._fd is not None and os.fstat(self._fd).st_size > self._offset

    def _piece(self) -> dict[str, Any] | None:
        if self._fd is None or self.credit <= 0:
            return None
        size = os.fstat(self._fd).st_size
        if size < self._offset:
            return self._cut(size)
        data = os.pread(self._fd, min(protocol.TAIL_CHUNK, self.credit), self._offset)
        if not data:
            return None
        frame = {
            "ev": protocol.DATA,
            "tail": self.name,
            "offset": self._offset,
            "log_id": self._id,
            "data": base64.b64encode(data).decode(),
        }
        self._offset += len(data)
        self.credit -= len(data)
        return frame

    def _cut(self, size: int) -> dict[str, Any]:
        frame = {"ev": protocol.TRUNCATED, "tail": self.name, "size": size, "was": self._offset}
        self._offset = 0
        return frame

    def _at_end(self) -> dict[str, Any] | None:
        """Every byte so far was sent: is that all there will be?"""
        now = files.boottime()
        if now - self._checked < CHECK_EVERY and self._follow:
            return None
        self._checked = now
        try:
            self._open()
        except RemoteError as error:
            return self._end(error.message)
        if self._events:
            return self._events.popleft()
        if self._follow and not self._over(self.attempt):
            return self._piece()
        # Read once more after that look: what was written until the attempt ended is still sent.
        return None if self.credit <= 0 and self._behind() else self._piece() or self._end()

    def _end(self, error: str = "") -> dict[str, Any]:
        self.close()
        frame = {"ev": protocol.END, "tail": self.name, "offset": self._offset}
        return {**frame, "error": error} if error else frame

    def _open(self) -> None:
        """Open the log, or the file that took its place. One that does not exist yet is waited for."""
        try:
            fd = files.open_read(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise RemoteError(
                    "bad_request", f"{self._path} is a symbolic link: Eyas does not follow it", "restore the log file"
                ) from None
            raise RemoteError("internal", f"{self._path} cannot be read: {error.strerror}") from None
        seen = os.fstat(fd)
        identity = files.file_id(seen)
        if not stat.S_ISREG(seen.st_mode):
            os.close(fd)
            raise RemoteError("bad_request", f"{self._path} is no plain file")
        if self._fd is not None and identity == self._id:
            os.close(fd)
            return
        if self._id is not None and identity != self._id:
            self._events.append({"ev": protocol.ROTATED, "tail": self.name, "log_id": identity, "was": self._id})
            self._offset = 0
        self.close()
        self._fd, self._id = fd, identity


class Tails:
    """All tails of one connection, served in turn."""

    def __init__(self) -> None:
        self._tails: dict[Any, Tail] = {}
        self._turn: deque[Any] = deque()

    def __len__(self) -> int:
        return len(self._tails)

    def add(self, tail: Tail) -> None:
        """A tail with the name of another takes its place."""
        self.remove(tail.name)
        self._tails[tail.name] = tail
        self._turn.append(tail.name)

    def remove(self, name: Any) -> None:
        tail = self._tails.pop(name, None)
        if tail is not None:
            tail.close()
            self._turn.remove(name)

    def credit(self, name: Any, amount: int) -> None:
        """Credit for a tail that has ended meanwhile is no error."""
        if name in self._tails:
            self._tails[name].credit += amount

    def next(self) -> dict[str, Any] | None:
        """One push of the next tail that has one."""
        for _ in range(len(self._turn)):
            name = self._turn[0]
            self._turn.rotate(-1)
            frame = self._tails[name].next()
            if frame is not None:
                if frame["ev"] == protocol.END:
                    self.remove(name)
                return frame
        return None
