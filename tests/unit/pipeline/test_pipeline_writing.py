"""The writer's thread: all that is put is on the disk in the end, what waits is bounded, failures reach the engine."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from plain_states import States, states

from pipeline import space, writing
from pipeline.dataset import Sample
from pipeline.report import StageError
from pipeline.store import Store
from pipeline.writing import Writer

SAMPLES = [Sample(index, (index, 7), (0, 1)) for index in range(20)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    yield Store(tmp_path / "states", {})
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("writer")]


def writer_of(store: Store, tell: Callable[[Sequence[Sample]], None] = lambda saved: None) -> Writer:
    scratch = store.folder / "scratch"
    scratch.mkdir()
    return Writer(store, tell, scratch)


def test_everything_put_is_on_the_disk_in_the_end(store: Store) -> None:
    told: list[int] = []
    with writer_of(store, lambda saved: told.extend(sample.index for sample in saved)) as writer:
        for sample in SAMPLES:
            writer.put(sample, states(sample))
    assert store.missing(SAMPLES) == []
    assert [store.path(sample.index).read_bytes() for sample in SAMPLES] == [states(sample) for sample in SAMPLES]
    assert sorted(told) == [sample.index for sample in SAMPLES]


def test_what_waits_is_written_when_the_engine_fails(store: Store) -> None:
    with pytest.raises(ValueError, match="the engine"), writer_of(store) as writer:
        for sample in SAMPLES:
            writer.put(sample, states(sample))
        raise ValueError("the engine")
    assert store.missing(SAMPLES) == []


def test_the_engine_waits_once_too_much_is_to_be_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "WAITING_BYTES", 25)
    go_on, first = threading.Event(), threading.Event()

    def tell(saved: Sequence[Sample]) -> None:
        first.set()
        go_on.wait()

    put = 0

    def engine() -> None:
        nonlocal put
        with writer_of(store, tell) as writer:
            for sample in SAMPLES:
                writer.put(sample, states(sample))
                put += 1

    thread = threading.Thread(target=engine, daemon=True)
    thread.start()
    assert first.wait(60)
    thread.join(0.2)
    assert thread.is_alive()
    assert put <= 5
    go_on.set()
    thread.join(60)
    assert put == len(SAMPLES)
    assert store.missing(SAMPLES) == []


def test_a_full_disk_stops_the_engine_and_keeps_what_is_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "GROUP", 1)
    free = iter([1 << 30, 1 << 30, space.RESERVE])

    class Usage:
        @property
        def free(self) -> int:
            return next(free)

    monkeypatch.setattr(space.shutil, "disk_usage", lambda folder: Usage())
    told = r"has 64\.0 MB free, and 11 bytes are to be written.*relaunch"
    put: list[States] = []
    with pytest.raises(StageError, match=told), writer_of(store) as writer:
        for sample in SAMPLES:
            if sample is SAMPLES[-1]:
                with pytest.raises(StageError, match=told):
                    writer.refused(wait=True)
            put.append(states(sample))
            writer.put(sample, put[-1])
    assert [sample.index for sample in store.missing(SAMPLES)] == list(range(2, 20))
    assert all(one.discarded for one in put), "nothing stays behind with the engine"


@pytest.mark.parametrize("code, told", [(errno.ENOSPC, "is full"), (errno.EFBIG, "takes no file of that size")])
def test_a_disk_that_fills_up_while_a_file_is_written_costs_that_file(store: Store, code: int, told: str) -> None:
    class Full(States):
        def write(self, path: Path, sample: Sample, form: str) -> str:
            path.write_bytes(self[:4])
            raise OSError(code, "no room")

    with pytest.raises(StageError, match=f"The disk of .* {told}.*relaunch"), writer_of(store) as writer:
        for sample in SAMPLES:
            writer.put(sample, Full(states(sample)) if sample.index == 7 else states(sample))
    missing = [sample.index for sample in store.missing(SAMPLES)]
    assert missing == [7, *range(21 - len(missing), 20)], "and what came after those that were written with it"
    assert not any(store.path(index).exists() for index in missing)


def test_states_that_are_not_finite_are_refused_and_the_others_kept(store: Store) -> None:
    with writer_of(store) as writer:
        for sample in SAMPLES:
            given = states(sample)
            given.finite = sample.index not in (3, 11)
            writer.put(sample, given)
        assert [error.index for error in writer.refused(wait=True)] == [3, 11]
        assert writer.refused(wait=True) == []
    assert [sample.index for sample in store.missing(SAMPLES)] == [3, 11]
