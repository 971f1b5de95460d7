"""The loop of one engine: which samples it asks for, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from plain_states import States

from pipeline import extracting
from pipeline.dataset import Sample
from pipeline.store import Store
from pipeline.writing import Writer

SAMPLES = [Sample(index, (index, 7), (0, 1)) for index in range(20)]
SIZE = 4


class Asked:
    """An engine that notes what is asked of it, and what is taken of that."""

    def __init__(self, queues: bool) -> None:
        self.queues = queues
        self.seen: list[tuple[str, list[int]]] = []
        self.given: list[States] = []
        self.spoilt: set[int] = set()

    def take(self, prompts: Sequence[Sequence[int]]) -> Iterator[States]:
        indices = [prompt[0] for prompt in prompts]
        self.seen.append(("asked", indices))
        return self._answers(indices)

    def _answers(self, indices: Sequence[int]) -> Iterator[States]:
        self.seen.append(("taken", list(indices)))
        for index in indices:
            one = States(b"states of %d" % index)
            one.finite = index not in self.spoilt
            self.spoilt.discard(index)
            self.given.append(one)
            yield one


def extract(engine: Asked, folder: Path, missing: set[int]) -> Store:
    store = Store(folder / "states", {})
    scratch = store.folder / "scratch"
    scratch.mkdir()
    with Writer(store, lambda saved: None, scratch) as writer:
        loop = extracting._Loop(engine, writer, missing)  # type: ignore[arg-type]
        loop.run(extracting.batches(SAMPLES, SIZE))
    return store


def test_a_server_is_asked_for_more_before_what_it_has_is_taken(tmp_path: Path) -> None:
    engine = Asked(queues=True)
    store = extract(engine, tmp_path, set(range(20)))
    assert store.missing(SAMPLES) == []
    assert [what for what, _ in engine.seen[: extracting.AHEAD + 2]] == ["asked"] * (extracting.AHEAD + 1) + ["taken"]
    taken = [index for what, indices in engine.seen if what == "taken" for index in indices]
    assert taken == list(range(20)), "in the order of the samples"


def test_an_engine_of_our_own_has_one_batch_at_a_time(tmp_path: Path) -> None:
    engine = Asked(queues=False)
    assert extract(engine, tmp_path, set(range(20))).missing(SAMPLES) == []
    assert [what for what, _ in engine.seen] == ["asked", "taken"] * 5


@pytest.mark.parametrize(("queues", "asked"), [(True, [5, 6]), (False, [4, 5, 6, 7])])
def test_only_a_server_is_asked_for_less_than_a_batch(tmp_path: Path, queues: bool, asked: list[int]) -> None:
    engine = Asked(queues)
    store = extract(engine, tmp_path, {5, 6})
    assert ("asked", asked) in engine.seen
    assert [sample.index for sample in SAMPLES if sample not in store.missing(SAMPLES)] == [5, 6]
    assert all(one.discarded for one in engine.given)


@pytest.mark.parametrize("queues", [True, False])
def test_what_is_not_finite_is_asked_for_once_more(tmp_path: Path, queues: bool) -> None:
    engine = Asked(queues)
    engine.spoilt = {2, 17}
    assert extract(engine, tmp_path, set(range(20))).missing(SAMPLES) == []
    asked = [indices for what, indices in engine.seen if what == "asked"]
    assert sum(2 in indices for indices in asked) == 2
