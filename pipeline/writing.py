"""Samples go to disk in threads of their own, so that the engine does not wait for fsync; what waits is bounded."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from pipeline import space
from pipeline.dataset import Sample
from pipeline.sample_files import FULL, NotFinite, Taken
from pipeline.store import Part, Store

WAITING_BYTES = 512 << 20
"""The engine waits once so much is to be written; one sample alone may be larger."""
GROUP = 64
"""Samples put in place with one sync of the folder and one of the manifest."""
THREADS = 4
"""Files that are checked, hashed and synced at once."""

_Item = tuple[Sample, Taken, int]


class Writer:
    """Takes states in any order of samples. Leaving the context writes what waits, also after an exception."""

    def __init__(self, store: Store, tell: Callable[[Sequence[Sample]], None], scratch: Path, form: str = FULL) -> None:
        """`tell` is called in the writer's thread with samples that are on the disk. `scratch`: on the store's disk."""
        self._store = store
        self._tell = tell
        self._scratch = scratch
        self._form = form
        self._waiting: deque[_Item] = deque()
        self._refused: list[NotFinite] = []
        self._bytes = 0
        self._busy = False
        self._ending = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="writer")

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join()
        if error is None and self._error is not None:
            raise self._error

    def put(self, sample: Sample, states: Taken) -> None:
        """Raises what made an earlier one fail."""
        size = states.nbytes
        with self._changed:
            while self._bytes and self._bytes + size > WAITING_BYTES and self._error is None:
                self._changed.wait()
            if self._error is not None:
                states.discard()
            self._raise()
            self._waiting.append((sample, states, size))
            self._bytes += size
            self._changed.notify_all()

    def refused(self, wait: bool = False) -> list[NotFinite]:
        """Samples whose states were not finite, since it was asked last; `wait` until all that was put is done with."""
        with self._changed:
            while wait and (self._waiting or self._busy) and self._error is None:
                self._changed.wait()
            self._raise()
            found, self._refused = self._refused, []
            return found

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        with ThreadPoolExecutor(THREADS, thread_name_prefix="writer") as pool:
            while group := self._next():
                try:
                    self._write(group, pool)
                except BaseException as error:
                    with self._changed:
                        self._error = error
                        for _, states, _ in self._waiting:
                            states.discard()
                        self._waiting.clear()
                        self._busy = False
                        self._changed.notify_all()
                    return
                with self._changed:
                    self._bytes -= sum(size for _, _, size in group)
                    self._busy = False
                    self._changed.notify_all()

    def _next(self) -> list[_Item]:
        """What waits, not more than a group; [] once all is written that will ever come."""
        with self._changed:
            while not self._waiting and not self._ending:
                self._changed.wait()
            group = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
            self._busy = bool(group)
            return group

    def _write(self, group: Sequence[_Item], pool: ThreadPoolExecutor) -> None:
        """Puts in place what can be, also where something fails; then raises the first failure."""
        failure: BaseException | None = None
        making: list[tuple[Sample, Path, Future[str]]] = []
        size = 0
        for sample, states, own in group:
            size += own
            try:
                space.require(self._store.folder, size)
            except BaseException as error:
                failure = error
                break
            path = self._scratch / f"hs_{sample.index}.part"
            making.append((sample, path, pool.submit(states.write, path, sample, self._form)))
        parts = []
        for sample, path, made in making:
            try:
                parts.append(Part(sample, path, made.result()))
            except NotFinite as error:
                with self._changed:
                    self._refused.append(error)
            except OSError as error:
                failure = failure or space.explained(error, self._store.folder)
            except BaseException as error:
                failure = failure or error
        for _, states, _ in group:  # what could not be written leaves nothing with the engine
            states.discard()
        if parts:
            self._store.commit(parts)
            self._tell([part.sample for part in parts])
        if failure is not None:
            raise failure
