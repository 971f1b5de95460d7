"""A thread that does the screen's jobs one after another, so that none of them holds the screen up."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class Lane:
    """Jobs one after another on a daemon thread: leaving never waits for a host that does not answer."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def put(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    @property
    def waiting(self) -> bool:
        return not self._jobs.empty()

    def close(self) -> None:
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
