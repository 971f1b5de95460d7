"""The figures that stages have reported, as curves in bounded memory: long ones are thinned, evenly and for good."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

from remote.agent import files
from remote.agent.layout import Attempt, Run
from remote.views import CurveView
from remote.wire import to_wire

BUDGET = 1 << 18
"""Bytes of events that are read at a time."""
CAPACITY = 400
"""Points kept of a curve; wider than any screen."""
NAMES_KEPT = 200
"""Curves of one attempt: a stage that makes up names must not fill the memory."""
PATIENCE = 1.0
"""Seconds of reading that one answer may take; the rest comes with the next."""
POINTS = 20_000
"""In one answer: below what a frame holds."""
VIEW_POINTS = 25
"""What a curve's own words weigh, in points."""
NAME_MAX = 200

Have = Mapping[str, Any]
"""CurveView.key -> [stride, points, reports] that the console has already."""


class Curve:
    """Every `stride`-th report of one figure. The same reports give the same points, whoever reads them and when."""

    def __init__(self) -> None:
        self.stride = 1
        self.steps: list[float] = []
        self.values: list[float] = []
        self.reports = 0
        self.broken = 0
        self.stepped = False
        self.last: tuple[float, float] | None = None

    def add(self, step: float | None, value: float) -> None:
        """`step` None: the figure was reported without one, and its place is the number of the report."""
        if not math.isfinite(value):
            self.broken += 1
            return
        at = self.reports
        self.reports += 1
        self.stepped = step is not None
        self.last = (float(at if step is None else step), value)
        if at % self.stride:
            return
        self.steps.append(self.last[0])
        self.values.append(value)
        if len(self.steps) > CAPACITY:
            self.stride *= 2
            self.steps, self.values = self.steps[::2], self.values[::2]

    def view(self, attempt: Attempt, name: str, have: Any) -> CurveView | None:
        """What the console has not got yet; None when it has it all."""
        known = isinstance(have, list) and len(have) == 3 and have[0] == self.stride and type(have[1]) is int
        start = min(max(0, have[1]), len(self.steps)) if known else 0
        if known and have[1:] == [len(self.steps), self.reports + self.broken]:
            return None
        return CurveView(
            stage=attempt.stage,
            attempt=attempt.number,
            name=name,
            stride=self.stride,
            start=start,
            steps=tuple(self.steps[start:]),
            values=tuple(self.values[start:]),
            reports=self.reports,
            broken=self.broken,
            stepped=self.stepped,
            last_step=self.last[0] if self.last else None,
            last_value=self.last[1] if self.last else None,
        )


class AttemptCurves:
    """The curves of one attempt so far."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.curves: dict[str, Curve] = {}
        self._offset = 0

    def read(self) -> bool:
        """Take in what is new, at most BUDGET bytes. True when there may be more."""
        found, offset = files.read_lines(self.attempt.events, self._offset, BUDGET)
        more = offset > self._offset
        self._offset = offset
        for event in found:
            if event.get("kind") == "metric":
                self._take(event)
        return more

    def _take(self, event: Mapping[str, Any]) -> None:
        try:
            name, value, step = str(event["name"])[:NAME_MAX], float(event["value"]), event.get("step")
            place = None if step is None else float(step)
        except (KeyError, TypeError, ValueError):
            return  # one malformed event must not hide the others
        if place is not None and not math.isfinite(place):
            return
        if name not in self.curves and len(self.curves) >= NAMES_KEPT:
            return
        self.curves.setdefault(name, Curve()).add(place, value)


class RunCurves:
    """The curves of every attempt of a run; asking again reads on from where it was."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._attempts: dict[str, AttemptCurves] = {}

    def answer(self, have: Have) -> dict[str, Any]:
        """`{"curves": [CurveView], "more": whether to ask again at once}`."""
        until = time.monotonic() + PATIENCE
        for stage in self.run.stage_folders():
            for attempt in self.run.attempts(stage):
                reader = self._attempts.setdefault(attempt.key, AttemptCurves(attempt))
                while reader.read():
                    if time.monotonic() > until:
                        return self._answer(have, more=True)
        return self._answer(have, more=False)

    def _answer(self, have: Have, more: bool) -> dict[str, Any]:
        found: list[Any] = []
        points = 0
        for view in self._news(have):
            if points > POINTS:
                return {"curves": found, "more": True}
            points += len(view.steps) + VIEW_POINTS
            found.append(to_wire(view))
        return {"curves": found, "more": more}

    def _news(self, have: Have) -> Iterator[CurveView]:
        for reader in self._attempts.values():
            for name, curve in reader.curves.items():
                view = curve.view(
                    reader.attempt, name, have.get(f"{reader.attempt.stage}/{reader.attempt.number}/{name}")
                )
                if view is not None:
                    yield view
