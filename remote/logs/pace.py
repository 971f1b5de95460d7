"""How fast a bar really moves: the seconds between its steps, by the bar's own clock.

A bar's printed rate is smoothed and its printed ETA jumps with it: one slow shard of 85 can add an hour. The median
of the latest steps does not move for one slow step, so both the ETA and what counts as a stall are judged by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain, compress, islice
from operator import le, lt, sub
from statistics import median
from typing import NamedTuple

KEPT_STEPS = 32
KNOWN_AFTER = 3
"""So many gaps between steps make a usual gap."""
STALL_FACTOR = 8
STALL_SECONDS = 10.0
"""A stall is a gap of STALL_FACTOR usual ones, and of STALL_SECONDS at least."""
MAX_STALLS = 8
TICK = 1.0
"""Bars show whole seconds."""


class Steps(NamedTuple):
    """What a bar showed, one update after another, in columns of one length."""

    done: Sequence[int]
    total: Sequence[int | None]
    elapsed: Sequence[float]
    """Seconds on the bar's clock."""
    places: Sequence[tuple[int, int]]
    """Number and byte offset of the line that shows it."""

    def part(self, start: int, stop: int | None = None) -> Steps:
        """Those from number `start` on, before number `stop`."""
        return Steps(self.done[start:stop], self.total[start:stop], self.elapsed[start:stop], self.places[start:stop])

    def last_run(self) -> int:
        """Where the bar began anew for the last time; 0 where it never did, or at the first."""
        done, total, elapsed = self.done, self.total, self.elapsed
        if (
            total.count(total[0]) == len(total)
            and all(map(le, done, islice(done, 1, None)))
            and all(map(le, elapsed, islice(elapsed, 1, None)))
        ):
            return 0
        place = len(done) - 1
        while not (
            done[place] < done[place - 1] or elapsed[place] < elapsed[place - 1] or total[place] != total[place - 1]
        ):
            place -= 1
        return place


def joined(parts: Sequence[Steps]) -> Steps:
    """The steps of all parts, one after another."""
    return Steps(
        [*chain.from_iterable(part.done for part in parts)],
        [*chain.from_iterable(part.total for part in parts)],
        [*chain.from_iterable(part.elapsed for part in parts)],
        [*chain.from_iterable(part.places for part in parts)],
    )


class Pace:
    """The steps of one bar. A bar that starts again starts a new pace."""

    def __init__(self, number: int) -> None:
        """`number` tells it from the other bars' paces."""
        self.number = number
        self._steps: deque[tuple[float, int]] = deque(maxlen=KEPT_STEPS)
        """Seconds and units, measured where the clock moved on."""
        self._gaps: deque[float] = deque(maxlen=KEPT_STEPS)
        """Seconds between updates that brought a step, stalls left out."""
        self._begin(0, None, 0.0)
        self.line = 0
        """Line of the latest step."""
        self.at: float | None = None
        """When that step arrived, seconds on the caller's clock."""
        self.stalls: list[tuple[int, float, float, int]] = []
        """Stalls that ended: units done before it, its seconds, the usual gap's seconds, line of the step before it."""

    def _begin(self, done: int, total: int | None, elapsed: float) -> None:
        self.done, self.total, self.elapsed = done, total, elapsed
        self._moved = elapsed
        self._mark = (done, elapsed)
        self._steps.clear()
        self._gaps.clear()

    def read(self, done: int, total: int | None, elapsed: float, line: int, at: float | None) -> bool:
        """The bar shows `done` of `total` after `elapsed` seconds. True when that is a step."""
        if done < self.done or elapsed < self.elapsed or total != self.total:
            self._begin(done, total, elapsed)
            self.stalls = []
        elif done > self.done:
            self._step(done, elapsed)
        else:
            self.elapsed = elapsed
            return False
        self.done, self.elapsed = done, elapsed
        self.line, self.at = line, at
        return True

    def run(self, steps: Steps, at: float | None) -> int:
        """Read what the bar shows one after another. The offset of the line of the last step; -1 without one."""
        if not steps.done:
            return -1
        began = steps.last_run() + 1
        moved = self._each(steps.part(0, began), at)
        later = steps.part(began)
        return max(moved, self._each(later.part(self._skip(later)), at))

    def _each(self, steps: Steps, at: float | None) -> int:
        moved = -1
        for done, total, elapsed, (line, offset) in zip(
            steps.done, steps.total, steps.elapsed, steps.places, strict=True
        ):
            if self.read(done, total, elapsed, line, at):
                moved = offset
        return moved

    def _skip(self, steps: Steps) -> int:
        """How many of the steps, which go on from here, can be left out: the later ones push them out of what is kept.

        Only where the bar moves on evenly, without a gap that might be a stall.
        """
        if len(steps.done) <= KEPT_STEPS + 1:
            return 0
        done, elapsed = [self.done, *steps.done], [self.elapsed, *steps.elapsed]
        moved = [self._moved, *compress(steps.elapsed, map(lt, done, steps.done))]
        gaps = [*map(sub, islice(moved, 1, None), moved)]
        longest = max(gaps, default=0.0)
        if longest >= STALL_SECONDS and longest >= STALL_FACTOR * min((*gaps, *self._gaps)):
            return 0
        place, moves, ticks = len(steps.done) - 1, 0, 0
        while place > 0 and min(moves, ticks) <= KEPT_STEPS:
            moves += done[place + 1] > done[place]
            ticks += done[place + 1] > done[place] and elapsed[place + 1] > elapsed[place]
            place -= 1
        if place:
            self.done, self.elapsed = self._mark = done[place], elapsed[place]
            self._moved = self.elapsed
        return place

    def _step(self, done: int, elapsed: float) -> None:
        gap = elapsed - self._moved
        self._moved = elapsed
        if self.is_stall(gap):
            self.stalls = [*self.stalls[1 - MAX_STALLS :], (self.done, gap, self.usual_gap or 0.0, self.line)]
        else:
            self._gaps.append(gap)
        marked, since = self._mark
        if elapsed > since:
            self._steps.append((elapsed - since, done - marked))
            self._mark = (done, elapsed)

    @property
    def usual_gap(self) -> float | None:
        """Median seconds between steps, None while too few are known."""
        return median(self._gaps) if len(self._gaps) >= KNOWN_AFTER else None

    @property
    def step_s(self) -> float | None:
        """Median seconds a unit takes, None while the clock has not moved between two steps."""
        if not self._steps:
            return None
        middle = median(seconds / units for seconds, units in self._steps)
        # Whole seconds hide the fractions: the mean of what lies within a tick of the median shows them again.
        near = [(seconds, units) for seconds, units in self._steps if abs(seconds - middle * units) <= TICK]
        if not near:
            return middle
        return sum(seconds for seconds, _ in near) / sum(units for _, units in near)

    @property
    def eta_s(self) -> float | None:
        """Seconds to the end at the median pace."""
        step = self.step_s
        return None if step is None or self.total is None else max(self.total - self.done, 0) * step

    @property
    def waited(self) -> float:
        """Seconds without a step that the bar itself shows, as it was drawn again and again."""
        return self.elapsed - self._moved

    def is_stall(self, gap: float) -> bool:
        if gap < STALL_SECONDS:
            return False
        usual = self.usual_gap
        return usual is not None and gap >= max(STALL_FACTOR * usual, STALL_SECONDS)
