"""Work that may take long, off the agent's loop: one thread a lane, results handed back to the loop."""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from remote.protocol import RemoteError

Work = Callable[[], Any]
Done = Callable[[Any, RemoteError | None], None]


class Wake:
    """Lets other threads end the loop's poll."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def __call__(self) -> None:
        try:
            os.write(self._write, b"!")
        except BlockingIOError:
            return  # a wake is pending already

    def clear(self) -> None:
        try:
            os.read(self.fd, 4096)
        except BlockingIOError:
            return


class Lane:
    """Work in the order given, one at a time."""

    def __init__(self, name: str, wake: Wake) -> None:
        self._name = name
        self._wake = wake
        self._todo: queue.SimpleQueue[tuple[Work, Done]] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Done, Any, RemoteError | None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: Work, done: Done) -> None:
        """`done(result, error)` is called by `collect`, on the loop's thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        self._todo.put((work, done))

    def collect(self) -> None:
        while not self._done.empty():
            done, result, error = self._done.get()
            done(result, error)

    def _serve(self) -> None:
        while True:
            work, done = self._todo.get()
            try:
                self._done.put((done, work(), None))
            except Exception as error:
                self._done.put((done, None, as_remote(error)))
            self._wake()


def as_remote(error: Exception) -> RemoteError:
    """Any failure as an answer; one that is no refusal leaves its traceback on standard error."""
    if isinstance(error, RemoteError):
        return error
    traceback.print_exception(error, file=sys.stderr)
    last = traceback.format_exception_only(error)[-1].strip()
    return RemoteError("internal", f"the agent failed: {last}", "the link's log on this side has the whole traceback")
