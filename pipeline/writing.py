"""Samples go to disk in a thread of their own, so that the engine does not wait for fsync; what waits is bounded."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from pipeline import space
from pipeline.dataset import Sample
from pipeline.store import Store

WAITING_BYTES = 512 << 20
"""The engine waits once so much is to be written; one sample alone may be larger."""


class Writer:
    """Takes states in any order of samples. Leaving the context writes what waits, also after an exception."""

    def __init__(self, store: Store, tell: Callable[[], None]) -> None:
        """`tell` is called in the writer's thread for each sample that is on the disk."""
        self._store = store
        self._tell = tell
        self._waiting: deque[tuple[Sample, Any]] = deque()
        self._bytes = 0
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

    def put(self, sample: Sample, states: Any) -> None:
        """`states` [S, L, H] of one sample. Raises what made an earlier one fail."""
        with self._changed:
            while self._bytes and self._bytes + states.nbytes > WAITING_BYTES and self._error is None:
                self._changed.wait()
            if self._error is not None:
                raise self._error
            self._waiting.append((sample, states))
            self._bytes += states.nbytes
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._ending:
                    self._changed.wait()
                if not self._waiting:
                    return
                sample, states = self._waiting.popleft()
            try:
                space.require(self._store.folder, states.nbytes)
                self._store.save(sample, _file(sample, states), len(sample.token_ids))
                self._tell()
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._waiting.clear()
                    self._changed.notify_all()
                return
            with self._changed:
                self._bytes -= states.nbytes
                self._changed.notify_all()


def _file(sample: Sample, states: Any) -> bytes:
    import torch
    from safetensors.torch import save

    tensors = {"hidden_states": states.contiguous(), "token_ids": torch.tensor(sample.token_ids, dtype=torch.int64)}
    return bytes(save(tensors))
