"""A run as the console sees it, built from its files. A reader keeps its place, so that looking again is cheap."""

from __future__ import annotations

import calendar
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from remote.agent import files
from remote.agent.events import Events
from remote.agent.layout import Attempt, Run, is_stage_name
from remote.agent.log_findings import LogFindings
from remote.agent.reading import Reading, World, read_attempt
from remote.logs.findings import Findings, Stall
from remote.views import (
    DONE,
    FAILED,
    LIVE_STAGE_STATES,
    LOST,
    RUNNING,
    STOPPED,
    STOPPING,
    WAITING,
    AttemptView,
    RunView,
    StageView,
)


def stage_state(attempt: AttemptView | None) -> str:
    """The state of a stage whose latest attempt this is."""
    if attempt is None:
        return WAITING
    if attempt.state in ("created", "starting", "running", "lost_supervisor"):
        return STOPPING if attempt.stop_requested else RUNNING
    if attempt.state == "stopping":
        return STOPPING
    if attempt.state in ("lost", "lost_reboot"):
        return LOST
    if attempt.stop_requested and attempt.state in ("exited", "signaled"):
        return STOPPED
    return DONE if attempt.state == "exited" and attempt.rc == 0 else FAILED


class AttemptReader:
    """What is kept of one attempt between two looks."""

    def __init__(self, attempt: Attempt, log: bool) -> None:
        self.attempt = attempt
        self.events = Events(attempt.events)
        self.log = LogFindings(attempt) if log else None
        self._final: Reading | None = None
        self.reading = read_attempt(attempt, World())

    def look(self, world: World) -> bool:
        """Read what is new. True when there is more to read."""
        if self._final is None:
            self.reading = read_attempt(self.attempt, world)
            if self.reading.over:
                # `world` may be a little old, and this look is the last.
                self.reading = read_attempt(self.attempt, World())
                self._final = self.reading if self.reading.over else None
        more = self.events.read()
        return (self.log is not None and self.log.read(self.reading.over)) or more


class RunReader:
    """Looks at one run again and again. `findings` False leaves the logs unread."""

    def __init__(self, run: Run, findings: bool = True) -> None:
        self.run = run
        self._findings = findings
        self._names: list[str] = []
        self._latest: dict[str, AttemptReader] = {}
        self._earlier: dict[str, dict[int, AttemptView]] = {}
        self._described: dict[str, Any] = {}
        self._described_at: tuple[int, int] | None = None
        self._trouble = ""

    def look(self, world: World | None = None) -> bool:
        """Read what is new in the run's files. True when there is more to read at once."""
        self._describe()
        world = world or World()
        more = False
        planned = [str(stage["name"]) for stage in self._plan()]
        self._names = planned + [name for name in self.run.stage_folders() if name not in planned]
        for stage in self._names:
            attempts = self.run.attempts(stage)
            if not attempts:
                continue
            reader = self._latest.get(stage)
            if reader is None or reader.attempt != attempts[-1]:
                reader = self._latest[stage] = AttemptReader(attempts[-1], self._findings)
            more = reader.look(world) or more
            for attempt in attempts[:-1]:
                known = self._earlier.setdefault(stage, {})
                if attempt.number not in known:
                    known[attempt.number] = read_attempt(attempt, world).view
        return more

    def look_at_all(self) -> RunView:
        """Read to the end, then the view."""
        while self.look():
            continue
        return self.view()

    def reading(self, attempt: Attempt) -> Reading | None:
        """The latest reading of an attempt, when it is its stage's latest."""
        reader = self._latest.get(attempt.stage)
        return reader.reading if reader is not None and reader.attempt == attempt else None

    def readings(self) -> list[Reading]:
        return [reader.reading for reader in self._latest.values()]

    def view(self) -> RunView:
        described = self._described
        trouble = [self._trouble, *(f"{r.attempt.key}: {r.trouble}" for r in self.readings() if r.trouble)]
        return RunView(
            run=self.run.id,
            project=str(described.get("project", "")),
            created=float(described.get("created") or _created(self.run.id)),
            pair=str(described.get("pair", "")),
            versions={str(k): str(v) for k, v in (described.get("versions") or {}).items()},
            stages=tuple(_waiting_again([self._stage(name) for name in self._names])),
            folder=self.run.folder,
            error="; ".join(filter(None, trouble)) or None,
            sweep=str(described.get("sweep") or ""),
            point={str(k): float(v) for k, v in (described.get("point") or {}).items()},
        )

    def _stage(self, name: str) -> StageView:
        titles = {s.get("name"): s.get("title") for s in self._plan()}
        title = str(titles.get(name) or name)
        reader = self._latest.get(name)
        if reader is None:
            return StageView(name, title)
        earlier = self._earlier.get(name, {}).values()
        attempt, events = reader.reading.view, reader.events
        dropped = [f"{events.artifacts_dropped} earlier artifacts are not listed"] if events.artifacts_dropped else []
        return StageView(
            name=name,
            title=title,
            state=stage_state(attempt),
            attempts=(*(view for view in earlier if view.number < attempt.number), attempt),
            progress=events.progress,
            metrics=dict(events.metrics),
            artifacts=tuple(events.artifacts),
            patches=events.patches,
            notes=(*events.notes, *dropped, *reader.reading.notes),
            exception=events.exception,
            findings=reader.log.findings if reader.log is not None else Findings(),
        )

    def _describe(self) -> None:
        try:
            seen = os.stat(self.run.json)
            mark = (seen.st_ino, seen.st_mtime_ns)
            if mark == self._described_at:
                return
            self._described = files.read_json(self.run.json) or {}
            self._described_at = mark
            self._trouble = ""
        except FileNotFoundError:
            self._trouble = "run.json is missing"
        except (OSError, files.Unreadable) as error:
            self._trouble = str(error)

    def _plan(self) -> list[dict[str, Any]]:
        plan = self._described.get("plan")
        stages = plan if isinstance(plan, list) else []
        return [stage for stage in stages if isinstance(stage, dict) and is_stage_name(stage.get("name"))]


def _created(run: str) -> float:
    return float(calendar.timegm(time.strptime(run[:16], "%Y%m%dT%H%M%SZ")))


def with_findings_of(view: RunView, attempt: Attempt) -> RunView:
    """The view with the findings of one attempt, maybe an earlier one, in its stage's place."""
    log = LogFindings(attempt)
    while log.read(over=True):
        continue
    stages = (replace(s, findings=log.findings) if s.name == attempt.stage else s for s in view.stages)
    return replace(view, stages=tuple(stages))


def _waiting_again(stages: list[StageView]) -> Iterator[StageView]:
    """A stage that ran before a newer attempt of an earlier one is to be done again: it waits."""
    newest = 0.0
    for stage in stages:
        started = (stage.latest.started if stage.latest else None) or 0.0
        stale = stage.latest is not None and started < newest and stage.state not in LIVE_STAGE_STATES
        yield replace(stage, state=WAITING) if stale else stage
        newest = max(newest, started)


def without_clocks(view: RunView) -> RunView:
    """The view with what moves by itself taken out: two that are equal need no second push."""
    return replace(view, stages=tuple(_still(stage) for stage in view.stages))


def _still(stage: StageView) -> StageView:
    attempts = tuple(replace(a, elapsed=None, log_bytes=0) for a in stage.attempts)
    stalls = tuple(_still_stall(stall) for stall in stage.findings.stalls)
    findings = replace(stage.findings, bytes_read=0, lines_read=0, stalls=stalls)
    return replace(stage, attempts=attempts, findings=findings)


def _still_stall(stall: Stall) -> Stall:
    """A stall that goes on grows every second: it is news again when it has lasted twice as long."""
    return stall if stall.ended else replace(stall, text="", gap_s=float(int(stall.gap_s).bit_length()))
