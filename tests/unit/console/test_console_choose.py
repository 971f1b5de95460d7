"""The run that is meant when none is named."""

from __future__ import annotations

from dataclasses import replace

from console_training import trained_run

from console.choose import default_run
from remote.views import WAITING, AttemptView, RunView


def point(name: str, state: str, started: float) -> RunView:
    run = replace(trained_run(done=True), run=name, sweep="s")
    attempts = (AttemptView(1, "exited", rc=0, started=started),) if started else ()
    return replace(run, stages=tuple(replace(stage, state=state, attempts=attempts) for stage in run.stages))


def test_it_is_the_newest() -> None:
    runs = [replace(trained_run(done=True), run=name) for name in ("c", "b", "a")]
    assert default_run(runs).run == "c"


def test_of_a_sweep_it_is_the_point_that_runs_else_the_last_to_begin() -> None:
    older = replace(trained_run(done=True), run="0")
    points = [point("d", WAITING, 0), point("c", "done", 1), point("b", "running", 3), point("a", "done", 2), older]
    assert default_run(points).run == "b"
    assert default_run([run for run in points if run.run != "b"]).run == "a"
    assert default_run([points[0], older]).run == "d"
