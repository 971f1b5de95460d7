"""The writer's thread: all that is put is on the disk in the end, what waits is bounded, failures reach the engine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import space, writing
from pipeline.dataset import Sample
from pipeline.report import StageError
from pipeline.store import Store
from pipeline.writing import Writer

SAMPLES = [Sample(index, (index, 7), (0, 1)) for index in range(20)]


class States(bytes):
    """What a tensor shows of itself to the writer."""

    @property
    def nbytes(self) -> int:
        return len(self)


def states(sample: Sample) -> States:
    return States(f"states of {sample.index}".encode())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    # torch is in the stage environments only; what a file holds is tested there.
    monkeypatch.setattr(writing, "_file", lambda sample, given: bytes(given))
    yield Store(tmp_path / "states", {})
    assert "writer" not in [thread.name for thread in threading.enumerate()]


def test_everything_put_is_on_the_disk_in_the_end(store: Store) -> None:
    told = []
    with Writer(store, lambda: told.append(1)) as writer:
        for sample in SAMPLES:
            writer.put(sample, states(sample))
    assert store.missing(SAMPLES) == []
    assert [store.path(sample.index).read_bytes() for sample in SAMPLES] == [states(sample) for sample in SAMPLES]
    assert len(told) == len(SAMPLES)


def test_what_waits_is_written_when_the_engine_fails(store: Store) -> None:
    with pytest.raises(ValueError, match="the engine"), Writer(store, lambda: None) as writer:
        for sample in SAMPLES:
            writer.put(sample, states(sample))
        raise ValueError("the engine")
    assert store.missing(SAMPLES) == []


def test_the_engine_waits_once_too_much_is_to_be_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "WAITING_BYTES", 25)
    go_on, first = threading.Event(), threading.Event()

    def tell() -> None:
        first.set()
        go_on.wait()

    put = 0

    def engine() -> None:
        nonlocal put
        with Writer(store, tell) as writer:
            for sample in SAMPLES:
                writer.put(sample, states(sample))
                put += 1

    thread = threading.Thread(target=engine)
    thread.start()
    assert first.wait(10)
    thread.join(0.2)
    assert thread.is_alive()
    assert put <= 3
    go_on.set()
    thread.join(10)
    assert put == len(SAMPLES)
    assert store.missing(SAMPLES) == []


def test_a_full_disk_stops_the_engine_and_keeps_what_is_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    free = iter([1 << 30, 1 << 30, space.RESERVE])

    class Usage:
        @property
        def free(self) -> int:
            return next(free)

    monkeypatch.setattr(space.shutil, "disk_usage", lambda folder: Usage())
    told = r"has 64\.0 MB free, and 11 bytes are to be written.*relaunch"
    with pytest.raises(StageError, match=told), Writer(store, lambda: None) as writer:
        for sample in SAMPLES:
            writer.put(sample, states(sample))
    assert [sample.index for sample in store.missing(SAMPLES)] == list(range(2, 20))
