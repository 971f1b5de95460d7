"""Keeps the Snapshot's curves in step with the run's figures, off the screen's thread and not too often."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from console import store
from console.curves import held, measured
from console.lane import Lane
from console.store import Snapshot
from remote import protocol
from remote.link.errors import LinkError

PAUSE = 1.0
"""Seconds between two questions: a curve moves no faster than an eye."""


class CurveFollower:
    """`request` is the session's; `change` applies a function to the Snapshot under the bridge's lock."""

    def __init__(
        self,
        request: Callable[..., dict[str, Any]],
        snapshot: Callable[[], Snapshot],
        change: Callable[[Callable[[Snapshot], Snapshot]], None],
    ) -> None:
        self._request, self._snapshot, self._change = request, snapshot, change
        self._lane = Lane("eyas-metrics")
        self._closed = threading.Event()
        self._asked: object = None
        """The figures for which the curves were asked last."""

    def refresh(self) -> None:
        """Ask for what is new, once for each state of the figures. Never blocks."""
        shown = self._snapshot()
        of = (shown.watching, measured(shown.run))
        if of != self._asked and shown.link.phase == "connected":
            self._asked = of
            self._lane.put(self._ask)

    def close(self) -> None:
        self._closed.set()
        self._lane.close()

    def _ask(self) -> None:
        if self._lane.waiting:  # newer figures are asked for next: one answer will do for both
            return
        try:
            more = True
            while more and not self._closed.is_set():
                more = self._once()
        except LinkError:
            self._asked = None  # the top line tells of the link; the next figures ask again
        except Exception as error:
            message = getattr(error, "message", str(error))
            self._change(lambda s: store.reduce_problem(s, f"The figures cannot be shown: {message}", ""))
        self._closed.wait(PAUSE)

    def _once(self) -> bool:
        shown = self._snapshot()
        run, of = shown.watching, measured(shown.run)
        answer = self._request(protocol.METRICS, run=run, have=held(shown.curves))
        self._change(lambda snapshot: store.reduce_curves(snapshot, run, answer, of))
        return bool(answer["more"])
