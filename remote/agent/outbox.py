"""What the agent has to say, in the order of urgency, written without ever blocking."""

from __future__ import annotations

import os
from collections import deque

URGENT_CAP = 32 << 20
"""Bytes of unread replies after which the console counts as gone."""


class Gone(Exception):
    """The console closed its end, or stopped reading."""


class Outbox:
    """Replies first; then, in turn, the newest of each kind of push and the pieces of tails."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._current = memoryview(b"")
        self._urgent: deque[bytes] = deque()
        self._urgent_bytes = 0
        self._latest: dict[str, bytes] = {}
        self._bulk: deque[bytes] = deque()
        self._bulk_next = False
        os.set_blocking(fd, False)

    def urgent(self, frame: bytes) -> None:
        """Replies and heartbeats. Raises Gone when the console has left too many unread."""
        self._urgent.append(frame)
        self._urgent_bytes += len(frame)
        if self._urgent_bytes > URGENT_CAP:
            raise Gone("the console does not read its replies")

    def latest(self, key: str, frame: bytes) -> None:
        """A push that replaces an unsent one of the same key."""
        self._latest[key] = frame

    def holds(self, key: str) -> bool:
        """True while a push of this key is unsent: a slow link needs no second one yet."""
        return key in self._latest

    def forget(self, key: str) -> None:
        self._latest.pop(key, None)

    def bulk(self, frame: bytes) -> None:
        """A piece of a tail. Ask `wants_bulk` first."""
        self._bulk.append(frame)

    @property
    def wants_bulk(self) -> bool:
        """True when no piece waits: one at a time, so that a reply never queues behind many."""
        return not self._bulk

    @property
    def idle(self) -> bool:
        return not (self._current or self._urgent or self._latest or self._bulk)

    def flush(self) -> None:
        """Write what the pipe takes now. Raises Gone."""
        while not self.idle:
            if not self._current:
                self._current = memoryview(self._next())
            try:
                written = os.write(self._fd, self._current)
            except BlockingIOError:
                return
            except OSError as error:
                raise Gone(f"the console's end is closed ({error.strerror})") from None
            self._current = self._current[written:]

    def _next(self) -> bytes:
        if self._urgent:
            frame = self._urgent.popleft()
            self._urgent_bytes -= len(frame)
            return frame
        if self._bulk and (self._bulk_next or not self._latest):
            self._bulk_next = False
            return self._bulk.popleft()
        self._bulk_next = True
        return self._latest.pop(next(iter(self._latest)))
