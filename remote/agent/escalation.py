"""Ending a process tree: TERM, a grace, then KILL until nothing is left."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable

from remote.agent import processes
from remote.agent.files import boottime

KILL_EVERY = 1.0
STUBBORN_AFTER = 5.0


class Escalation:
    """One tree on its way out. `living` gives the pids that are left; each is signalled by its identity."""

    def __init__(self, living: Callable[[], Iterable[int]]) -> None:
        self._living = living
        self._kill_at: float | None = None
        self._first_kill: float | None = None

    @property
    def begun(self) -> bool:
        return self._kill_at is not None

    def begin(self, grace_s: float) -> None:
        """TERM to everything, KILL after `grace_s` seconds; a second call can only bring the KILL forward."""
        self._send(signal.SIGTERM)
        due = boottime() + grace_s
        self._kill_at = due if self._kill_at is None else min(self._kill_at, due)

    def step(self) -> None:
        """Send KILL when it is due. Call it every half second or so."""
        if self._kill_at is not None and boottime() >= self._kill_at:
            self._send(signal.SIGKILL)
            self._first_kill = self._first_kill or boottime()
            self._kill_at = boottime() + KILL_EVERY

    @property
    def wait(self) -> float:
        """Seconds until the next signal is due, at most half a second."""
        return 0.5 if self._kill_at is None else min(0.5, max(0.01, self._kill_at - boottime()))

    def stubborn(self, left: Iterable[int]) -> str:
        """A sentence about processes that outlive SIGKILL, '' while that would be too early to say."""
        pids = sorted(left)
        if not pids or self._first_kill is None or boottime() - self._first_kill < STUBBORN_AFTER:
            return ""
        named = ", ".join(map(str, pids[:8]))
        return (
            f"{len(pids)} of its processes are not dying {boottime() - self._first_kill:.0f} s after SIGKILL "
            f"(pid {named}): they hang in the kernel, most often in a driver or on a network file system"
        )

    def _send(self, number: int) -> None:
        for pid in self._living():
            identity = processes.identify(pid)
            if identity is not None:
                try:
                    processes.send(identity, number)
                except PermissionError:
                    continue  # it changed its user: not ours to end
