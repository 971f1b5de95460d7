"""The loop of one engine: its batches through the target and to the disk."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from pipeline import scratch
from pipeline.dataset import Sample
from pipeline.engine import backend
from pipeline.engine.backend import Engine
from pipeline.layers import Layers
from pipeline.report import StageError
from pipeline.sample_files import NotFinite, Taken
from pipeline.settings import Settings
from pipeline.store import Store
from pipeline.writing import Writer

TRIES = 2
"""Times that a sample is computed before states that are not finite end the stage."""

AHEAD = 2
"""Batches that are asked for of a server before the one whose states are taken, so that it is never without work."""

Batch = Sequence[Sample]
_Asked = tuple[Batch, Iterable[Taken]]


class Listener(Protocol):
    """Who is told how far the engine is."""

    def ready(self, seconds: float) -> None:
        """The target is loaded, and every process of the engine runs."""
        ...

    def saved(self, samples: Sequence[Sample]) -> None:
        """They are on the disk. Called in a thread of the writer's."""
        ...


def batches(samples: Sequence[Sample], size: int) -> list[Batch]:
    """A batch is the same samples in every attempt and on every engine, so that the data are the same to the bit."""
    return [samples[start : start + size] for start in range(0, len(samples), size)]


def load(wanted: Settings, chosen: str, target: Path, layers: Layers, folder: Path) -> Engine:
    return backend.engine(
        chosen,
        target,
        layers,
        wanted.max_length,
        wanted.tensor_parallel,
        wanted.dtype,
        folder,
        wanted.extract.endpoint,
    )


def run(
    wanted: Settings,
    chosen: str,
    target: Path,
    layers: Layers,
    store: Store,
    todo: Sequence[Batch],
    missing: set[int],
    listener: Listener,
    begin: Callable[[], None],
) -> None:
    """Loads the target and extracts the samples of `todo` that are in `missing`; `begin()` once it is loaded."""
    with scratch.own(store.folder) as folder:
        started = time.monotonic()
        with load(wanted, chosen, target, layers, folder) as engine:
            listener.ready(time.monotonic() - started)
            begin()
            with Writer(store, listener.saved, folder, wanted.extract.states) as writer:
                _Loop(engine, writer, missing).run(todo)


class _Loop:
    def __init__(self, engine: Engine, writer: Writer, missing: set[int]) -> None:
        self._engine = engine
        self._writer = writer
        self._missing = missing
        self._tries: dict[int, int] = {}

    def run(self, todo: Sequence[Batch]) -> None:
        home = {sample.index: batch for batch in todo for sample in batch}
        asked: deque[_Asked] = deque()
        for batch in todo:
            asked.append(self._ask(batch, self._missing))
            while len(asked) > (AHEAD if self._engine.queues else 0):
                self._put(asked.popleft(), self._missing)
            self._again(self._writer.refused(), home)
        for one in asked:
            self._put(one, self._missing)
        while refused := self._writer.refused(wait=True):
            self._again(refused, home)

    def _ask(self, batch: Batch, wanted: set[int]) -> _Asked:
        """Of the engine: the whole batch, so that a sample's states do not depend on what is there already; only what
        is wanted where they do not depend on the batch anyway."""
        if self._engine.queues:
            batch = [sample for sample in batch if sample.index in wanted]
        return batch, self._engine.take([sample.token_ids for sample in batch])

    def _put(self, asked: _Asked, wanted: set[int]) -> None:
        for sample, states in zip(*asked, strict=True):
            if sample.index in wanted:
                self._writer.put(sample, states)
            else:
                states.discard()

    def _again(self, refused: Sequence[NotFinite], home: dict[int, Batch]) -> None:
        """Once more, in the batch that each was in; what is wrong twice is not an accident."""
        for error in refused:
            tries = self._tries[error.index] = self._tries.get(error.index, 1) + 1
            if tries > TRIES:
                raise StageError(
                    f"{error} {TRIES} tries gave the same, and nothing of it is kept. Look at the target's weights and "
                    "run.dtype, and at the patches that are off; or take the conversation out."
                ) from error
        again = {error.index for error in refused}
        for batch in {home[index][0].index: home[index] for index in again}.values():
            self._put(self._ask(batch, again), again)
