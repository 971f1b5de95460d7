"""kill -9 at random moments of extract: the data set that comes of it is that of an undisturbed run, to the bit."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import reports
from drill import Started, leftovers, lines, run_of, samples, states
from engine_run import Run

from pipeline.dataset import Sample

pytestmark = pytest.mark.engine


class Drill:
    """Kills attempts of one run until the wanted number of kills has hit."""

    def __init__(self, run: Run, made: list[Sample], seed: int) -> None:
        self._run = run
        self._made = made
        self._chance = random.Random(seed)
        self.rows: list[tuple[object, ...]] = []

    def undisturbed(self) -> dict[str, bytes]:
        started = time.monotonic()
        attempt = Started(self._run).wait()
        assert attempt.rc == 0, attempt.log
        self._takes = time.monotonic() - started
        found = states(self._run)
        assert len(found) == len(self._made)
        self._clear()
        return found

    def kill(self, hits: int) -> None:
        """Half of the kills come at any moment from the start on, half once the first samples are written."""
        while len(self.rows) < hits:
            whole_group = self._chance.random() < 0.5
            writing = self._chance.random() < 0.5
            before = self._count()
            attempt = Started(self._run)
            if writing:
                attempt.until(lambda was=before: self._count() > was)  # type: ignore[misc]
                time.sleep(self._chance.uniform(0, 0.5))
            else:
                time.sleep(self._chance.uniform(0, self._takes))
            if attempt.kill(whole_group):
                self._check(before)
                told = ("group" if whole_group else "driver", "writing" if writing else "any moment")
                self.rows.append((len(self.rows) + 1, *told, before, self._count()))
            else:
                assert attempt.process.returncode == 0, attempt.log
                self._clear()  # it got through; from the start again

    def finish(self) -> dict[str, bytes]:
        attempt = Started(self._run).wait()
        assert attempt.rc == 0, attempt.log
        assert leftovers(self._run) == []
        known = {line["index"]: line for line in lines(self._run) if "index" in line}
        assert sorted(known) == [sample.index for sample in self._made]
        return states(self._run)

    def _check(self, before: int) -> None:
        """What is in place is whole, and no sample that was there is gone."""
        found = states(self._run)
        assert len(found) >= before
        for name, data in found.items():
            header = int.from_bytes(data[:8], "little")
            assert len(data) > 8 + header, name
        assert {line["file"] for line in lines(self._run) if "index" in line} <= found.keys()

    def _count(self) -> int:
        return len(list((self._run.products / "hidden_states").glob("hs_*")))

    def _clear(self) -> None:
        shutil.rmtree(self._run.products / "hidden_states")


def drill(folder: Path, target: Path, pair: str, count: int, hits: int, seed: int, **extract: Any) -> Drill:
    made = samples(count)
    one = Drill(run_of(folder, target, made, pair, **extract), made, seed)
    expected = one.undisturbed()
    one.kill(hits)
    found = one.finish()
    assert found.keys() == expected.keys()
    assert [name for name in found if found[name] != expected[name]] == []
    return one


def test_kills_of_extraction_leave_the_same_data(run: Run, tmp_path: Path) -> None:
    target = run.products / "target"
    drill(tmp_path / "run", target, "seed", 120, 5, seed=1, backend="transformers")


@pytest.mark.matrix
@pytest.mark.parametrize(
    "pair, backend, engines, count, hits",
    [
        ("seed", "transformers", 1, 400, 22),
        ("current", "transformers", 2, 400, 16),
        ("seed", "generator", 1, 160, 6),
        ("current", "native", 1, 160, 6),
    ],
)
def test_fifty_kills_at_random_moments(
    run: Run, tmp_path: Path, pair: str, backend: str, engines: int, count: int, hits: int
) -> None:
    one = drill(
        tmp_path / "run", run.products / "target", pair, count, hits, seed=hits, backend=backend, engines=engines
    )
    head = ("kill", "of", "at", "samples before", "samples after")
    reports.write(f"kills-{backend}-{engines}", reports.table(head, one.rows))
