"""What an attempt's files and processes say about it, whoever of its witnesses is still alive."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from remote.agent import files, processes
from remote.agent.layout import Attempt
from remote.agent.status import FINAL
from remote.views import AttemptView

BIRTH = 30.0
"""Seconds in which an attempt without a status may still be on its way to a supervisor."""
LIVE = frozenset({"created", "starting", "running", "stopping", "lost_supervisor"})


class World:
    """The host at one moment; the costly part is read at most once, and only when it is needed."""

    def __init__(self) -> None:
        self.made = files.boottime()
        self._trees: dict[str, set[int]] = {}

    @functools.cached_property
    def snapshot(self) -> dict[int, processes.Facts]:
        return processes.snapshot()

    def tree(self, attempt: Attempt, main: processes.Identity | None) -> set[int]:
        """Pids that evidence ties to the attempt: see `processes.belonging`."""
        if attempt.folder not in self._trees:
            self._trees[attempt.folder] = processes.belonging(main, attempt.log, self.snapshot)
        return self._trees[attempt.folder]


@dataclass(frozen=True)
class Reading:
    """One attempt, as its view and as what decisions need."""

    attempt: Attempt
    view: AttemptView
    supervisor: processes.Identity | None = None
    """Only while it is alive."""
    main: processes.Identity | None = None
    trouble: str = ""
    """Why its files cannot be read whole."""
    notes: tuple[str, ...] = ()
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        return self.view.state in LIVE

    @property
    def over(self) -> bool:
        """Nothing of it will change any more."""
        return not self.live and self.view.clean and self.supervisor is None


def read_attempt(attempt: Attempt, world: World) -> Reading:
    """Never raises for what it finds on disk: that becomes the view's error."""
    trouble = []
    spec: dict[str, Any] = {}
    try:
        spec = files.read_json(attempt.spec) or {}
    except files.Unreadable as unreadable:
        trouble.append(str(unreadable))
    status: dict[str, Any] | None = None
    supervisor: processes.Identity | None = None
    try:
        status, supervisor = _status(attempt)
    except files.Unreadable as unreadable:
        trouble.append(str(unreadable))
        status = {}
    shim = processes.Identity.from_json((status or {}).get("shim"))
    main = processes.Identity.from_json((status or {}).get("main"))
    shim_lives = processes.alive(shim)  # looked up before its record is read: a dead shim writes no more
    record: dict[str, Any] = {}
    with contextlib.suppress(files.Unreadable):
        record = files.read_record(attempt.record) or {}

    fields = _merge(status or {}, record)
    known = bool(status) or record.get("state") in FINAL
    tree = functools.partial(_belonging, attempt, main, shim, shim_lives, world)
    if not known:
        state, error = _unknown(spec, trouble, tree)
    else:
        state, error = _state(fields, supervisor, shim_lives, tree)
    clean = bool(fields.get("clean"))
    if not clean and supervisor is None and state not in LIVE:
        clean = fields.get("boot", processes.boot_id()) != processes.boot_id() or not tree()
    view = AttemptView(
        number=attempt.number,
        state=state,
        rc=fields.get("rc"),
        signal=fields.get("signal"),
        witness=fields.get("witness"),
        started=fields.get("started"),
        elapsed=_elapsed(fields, state),
        error=error or fields.get("error") or fields.get("trouble"),
        stop_requested=bool(fields.get("stop_requested")),
        clean=clean,
        patches_off=tuple((spec.get("switches") or {}).get("off") or ()),
        **_log(attempt),
    )
    return Reading(attempt, view, supervisor, main, "; ".join(trouble), _notes(fields, supervisor, spec), spec)


def _status(attempt: Attempt) -> tuple[dict[str, Any] | None, processes.Identity | None]:
    """status.json, and its supervisor when that is alive."""
    status = files.read_json(attempt.status)
    supervisor = processes.Identity.from_json((status or {}).get("supervisor"))
    if processes.alive(supervisor):
        return status, supervisor
    # It may have written its last words between the two looks; after its death it writes no more.
    return files.read_json(attempt.status), None


def _merge(status: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """The record speaks where the status was not written any more: a dead supervisor or a full disk."""
    if record.get("state") not in FINAL:
        return status
    if status.get("state") in FINAL and not (record.get("clean") and not status.get("clean")):
        return status
    return {**status, **record}


def _state(
    fields: Mapping[str, Any],
    supervisor: processes.Identity | None,
    shim_lives: bool,
    tree: functools.partial[set[int]],
) -> tuple[str, str | None]:
    state = str(fields.get("state"))
    if state in FINAL or supervisor is not None:
        return state, None
    if fields.get("boot") != processes.boot_id():
        return "lost_reboot", "the host restarted while it ran"
    if shim_lives:
        return "lost_supervisor", "its supervisor died; the stage goes on and its shim will record how it ends"
    if tree():
        return "lost_supervisor", "its supervisor and its shim died; the stage goes on, but its exit code will be lost"
    return "lost", "its supervisor and its shim died before either saw how the stage ended"


def _unknown(spec: Mapping[str, Any], trouble: list[str], tree: functools.partial[set[int]]) -> tuple[str, str | None]:
    """An attempt whose status says nothing."""
    if trouble:
        return ("lost_supervisor" if tree() else "lost"), "; ".join(trouble)
    if spec.get("boot") == processes.boot_id() and files.boottime() - spec.get("created_boot", 0.0) < BIRTH:
        return "created", None
    return "lost", "it never began: whoever asked for it died before its supervisor started"


def _belonging(
    attempt: Attempt,
    main: processes.Identity | None,
    shim: processes.Identity | None,
    shim_lives: bool,
    world: World,
) -> set[int]:
    return world.tree(attempt, main) - ({shim.pid} if shim and shim_lives else set())


def _elapsed(fields: Mapping[str, Any], state: str) -> float | None:
    started, ended = fields.get("started_boot"), fields.get("ended_boot")
    if started is None:
        return None
    if ended is not None:
        return float(ended - started)
    return files.boottime() - float(started) if state in LIVE else None


def _log(attempt: Attempt) -> dict[str, Any]:
    try:
        seen = os.lstat(attempt.log)
    except OSError:
        return {}
    return {"log_bytes": seen.st_size, "log_id": files.file_id(seen)} if stat.S_ISREG(seen.st_mode) else {}


def _notes(
    fields: Mapping[str, Any], supervisor: processes.Identity | None, spec: Mapping[str, Any]
) -> tuple[str, ...]:
    """What the operator must know about the walk from this stage to the next."""
    if fields.get("chain_error"):
        return (str(fields["chain_error"]),)
    done = fields.get("state") == "exited" and fields.get("rc") == 0 and not fields.get("stop_requested")
    if done and supervisor is None and spec.get("chain") and "chained" not in fields:
        return ("its supervisor died, so the next stage was not started by itself: relaunch from there",)
    return ()
