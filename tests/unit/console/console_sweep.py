"""A host with a sweep of four points: done, running, waiting, and one that could not begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from console_training import TrainingSession

from remote import protocol
from remote.protocol import RemoteError
from remote.views import PointView, StageProgress, SweepView
from remote.wire import to_wire

STEPS = (0.0, 10.0, 20.0)
DONE = PointView(
    run="20260301T041500Z-5eed0002",
    values={"lr": 0.001, "draft_vocabulary": 256},
    state="done",
    metrics={
        "val/loss": 2.1,
        "val/acceptance": 2.9,
        "acceptance/stdlib/served": 2.8,
        "acceptance/held out/served": 3.0,
        "acceptance/stdlib/untrained": 1.02,
    },
    curve="val/acceptance",
    steps=STEPS,
    course=(1.0, 2.4, 2.9),
)
RUNNING = replace(
    DONE,
    run="20260301T041500Z-5eed0003",
    values={"lr": 0.002, "draft_vocabulary": 256},
    state="running",
    stage="train",
    progress=StageProgress("training", 30, 60),
    metrics={"loss": 2.4, "acceptance": 3.4},
    course=(1.0, 2.8, 3.4),
)
WAITING = PointView("20260301T041500Z-5eed0004", {"lr": 0.002, "draft_vocabulary": 512})
BROKEN = replace(
    WAITING, run="20260301T041500Z-5eed0005", values={"lr": 0.004, "draft_vocabulary": 512}, error="no space"
)
SWEEP = SweepView(
    "20260301T041000Z-5eed0000", "20260301T031500Z-5eed0001", 1.0, points=(DONE, RUNNING, WAITING, BROKEN)
)


class SweepSession(TrainingSession):
    sweep: SweepView | None = SWEEP

    def request(self, op: str, /, **params: Any) -> dict[str, Any]:
        if op == protocol.SWEEPS:
            self.requests.append((op, params))
            if self.sweep is None:
                raise RemoteError("no_such_run", "project story has no sweep on this host", "start one: `eyas sweep`")
            return {"sweep": to_wire(self.sweep)}
        return super().request(op, **params)
