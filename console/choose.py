"""Which run is meant when none is named."""

from __future__ import annotations

from collections.abc import Sequence

from remote.views import RUNNING, RunView


def default_run(runs: Sequence[RunView]) -> RunView:
    """The newest; of a sweep's points, which are made all at once, the one that runs, else the last to begin."""
    newest = runs[0]
    if not newest.sweep:
        return newest
    points = [run for run in runs if run.sweep == newest.sweep]
    started = {run.run: max((s.latest.started or 0.0 for s in run.stages if s.latest), default=0.0) for run in points}
    return max(points, key=lambda run: (run.state == RUNNING, started[run.run]))
