"""Which compat patches each attempt ran with, kept in run.json: the run tells it by itself, wherever it is moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remote.agent import files
from remote.agent.events import Events
from remote.agent.layout import Attempt, Run
from remote.wire import to_wire


def keep(run: Run) -> None:
    """Adds to run.json what the run's ended attempts reported. Raises OSError, TimeoutError, files.Unreadable."""
    with files.locked(run.lock):
        described = files.read_json(run.json)
        if described is None:
            raise files.Unreadable("run.json is missing")
        found = gather(run, described)
        if found != described.get("patches", {}):
            files.write_json(run.json, {**described, "patches": found})


def gather(run: Run, described: Mapping[str, Any]) -> dict[str, Any]:
    """`STAGE/N` -> PatchReports, those of `described` and of the attempts that it does not have yet.

    Call it while nothing of the run is live: a record, once kept, is not read again.
    """
    known = dict(described.get("patches") or {})
    for attempt in (a for stage in run.stage_folders() for a in run.attempts(stage)):
        name = f"{attempt.stage}/{attempt.number}"
        reports = () if name in known else _reports(attempt)
        if reports:
            known[name] = to_wire(reports)
    return known


def _reports(attempt: Attempt) -> tuple[Any, ...]:
    events = Events(attempt.events)
    while events.read():
        continue
    return events.patches
