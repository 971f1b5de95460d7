"""Keeps the Snapshot's sweep up to date while it is looked at: its points are other runs than the watched one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from console import store
from console.lane import Lane
from console.store import Snapshot
from remote import protocol
from remote.link.errors import LinkError
from remote.protocol import RemoteError

EVERY = 2.0
"""Seconds from one question to the next."""


class SweepFollower:
    """`request` is the session's; `change` applies a function to the Snapshot under the bridge's lock."""

    def __init__(
        self,
        request: Callable[..., dict[str, Any]],
        project: str,
        change: Callable[[Callable[[Snapshot], Snapshot]], None],
        clock: Callable[[], float],
    ) -> None:
        self._request, self._project, self._change, self._clock = request, project, change, clock
        self._lane = Lane("eyas-sweep")
        self._closed = threading.Event()
        self._asking = threading.Event()
        self._due = 0.0

    def refresh(self, sweep: str) -> None:
        """Ask for the sweep, '' for the project's newest, unless it was just asked for. Never blocks."""
        if not self._asking.is_set() and self._clock() >= self._due:
            self._asking.set()
            self._lane.put(lambda: self._ask(sweep))

    def close(self) -> None:
        self._closed.set()
        self._lane.close()

    def _ask(self, sweep: str) -> None:
        try:
            answer = self._request(protocol.SWEEPS, sweep=sweep or None, project=self._project)
            self._change(lambda snapshot: store.reduce_sweep(snapshot, answer))
        except LinkError:
            pass  # the top line tells of the link
        except RemoteError as error:
            problem = store.Problem(error.message, error.remedy)
            self._change(lambda snapshot: replace(snapshot, sweep_problem=problem))
        finally:
            self._due = self._clock() + EVERY
            self._asking.clear()
