"""Two runs that share the samples of one data set, as on two hosts, and meet in one folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from drill import Started, leftovers, lines, run_of, samples, states
from engine_run import Run

pytestmark = pytest.mark.engine


def test_two_runs_that_share_the_samples_make_the_data_of_one(run: Run, tmp_path: Path) -> None:
    target, made = run.products / "target", samples(30)
    alone = run_of(tmp_path / "alone", target, made, "seed", backend="transformers")
    assert Started(alone).wait().rc == 0
    shared = {"backend": "transformers", "world_size": 2, "folder": str(tmp_path / "shared")}
    both = [run_of(tmp_path / f"rank-{rank}", target, made, "seed", rank=rank, **shared) for rank in (0, 1)]
    for attempt in [one.wait() for one in [Started(one) for one in both]]:
        assert attempt.rc == 0, attempt.log
    of = {line["index"] // 4 % 2: line["attempt"] for line in lines(both[0]) if "index" in line}
    assert [of[rank] for rank in (0, 1)] == ["rank-0/extract/1", "rank-1/extract/1"], "batches are of four samples"
    assert states(both[0]) == states(both[1]) == states(alone)
    assert len(states(alone)) == len(made)
    assert leftovers(both[0]) == []
