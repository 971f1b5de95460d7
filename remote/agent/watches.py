"""Watched runs: looked at a few times a second, pushed when something changed."""

from __future__ import annotations

from remote import protocol
from remote.agent import fit
from remote.agent.files import boottime
from remote.agent.layout import Run
from remote.agent.outbox import Outbox
from remote.agent.reading import World
from remote.agent.view import RunReader, without_clocks
from remote.views import RunView

INTERVAL = 0.2
SIZES_EVERY = 1.0
"""Seconds between pushes when only the log grew."""
PUSH_RATE = 1 << 20
"""Bytes a second that the pushes of one run may take; a small view is not held up by it."""
WORLD_AGE = 2.0
"""Seconds for which one look at every process of the host serves."""


class Watch:
    """One run, and what the console was last told about it."""

    def __init__(self, run: Run) -> None:
        self._reader = RunReader(run)
        self._pushed: RunView | None = None
        self._pushed_still: RunView | None = None
        self._pushed_at = 0.0
        self._rests_until = 0.0
        self.key = f"run {run.id}"

    def look(self, world: World, outbox: Outbox) -> bool:
        """True when there is more to read at once."""
        more = self._reader.look(world)
        now = boottime()
        if now < self._rests_until or outbox.holds(self.key):
            return more
        view = self._reader.view()
        still = without_clocks(view)
        if still != self._pushed_still or (now - self._pushed_at >= SIZES_EVERY and self._grew(view)):
            frame = fit.encode_view(lambda shown: {"ev": protocol.RUN, "run": shown}, view)
            outbox.latest(self.key, frame)
            self._pushed, self._pushed_still, self._pushed_at = view, still, now
            self._rests_until = now + max(INTERVAL, len(frame) / PUSH_RATE)
        return more

    def _grew(self, view: RunView) -> bool:
        return self._pushed is None or _sizes(view) != _sizes(self._pushed)


def _sizes(view: RunView) -> list[int]:
    return [attempt.log_bytes for stage in view.stages for attempt in stage.attempts[-1:]]


class Watches:
    """All watches of one connection."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._watches: dict[str, Watch] = {}
        self._world = World()
        self._due = 0.0

    def add(self, run: Run) -> None:
        self._watches[run.id] = Watch(run)
        self._due = 0.0

    def remove(self, run_id: object) -> None:
        watch = self._watches.pop(str(run_id), None)
        if watch is not None:
            self._outbox.forget(watch.key)

    @property
    def wait(self) -> float | None:
        """Seconds until the next look is due; None when nothing is watched."""
        return max(0.0, self._due - boottime()) if self._watches else None

    def look(self) -> None:
        now = boottime()
        if not self._watches or now < self._due:
            return
        if now - self._world.made > WORLD_AGE:
            self._world = World()
        more = [watch.look(self._world, self._outbox) for watch in self._watches.values()]
        self._due = boottime() + (0.0 if any(more) else INTERVAL)
