"""Making an attempt's folder and starting it. The caller holds the run's lock."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remote.agent import files, processes
from remote.agent.launch import NotBegun, launch
from remote.agent.layout import Attempt, Run
from remote.agent.reading import Reading, World, read_attempt
from remote.protocol import RemoteError


@dataclass(frozen=True)
class Order:
    """What an attempt is made from: one stage of the plan and what was asked for."""

    stage: Mapping[str, Any]
    """name, title, argv, env, cwd, grace_s: as `pipeline plan` printed it."""
    request_id: str
    switches: Mapping[str, Any]
    settings: Mapping[str, Any]
    bundle: str


def no_space(path: str, error: OSError) -> NotBegun:
    """An OSError of a write below the state folder as a sentence."""
    if error.errno in files.FULL:
        return NotBegun(
            "no_space", f"there is no space left below {path}", "free some space on the host, or set another `state`"
        )
    return NotBegun("internal", f"cannot write below {path}: {error.strerror}")


def create(run: Run, order: Order) -> Attempt:
    """The next attempt's folder with its spec. Leaves nothing behind when it fails (NotBegun)."""
    name = str(order.stage["name"])
    earlier = run.attempts(name)
    number = earlier[-1].number + 1 if earlier else 1
    attempt = Attempt(os.path.join(run.folder, name, str(number)))
    # Under another name until it is whole: a watch that met it without its spec would take it for lost.
    draft = Attempt(os.path.join(run.folder, name, f".{number}.{os.getpid()}"))
    try:
        os.makedirs(draft.folder, 0o700)
        os.mkdir(draft.control, 0o700)
        files.write_json(draft.spec, _spec(attempt, order))
        os.rename(draft.folder, attempt.folder)
        files.sync_folder(os.path.dirname(attempt.folder))
    except OSError as error:
        discard(draft)
        discard(attempt)
        raise no_space(run.folder, error) from None
    return attempt


def _spec(attempt: Attempt, order: Order) -> dict[str, Any]:
    stage = order.stage
    return {
        "v": files.VERSION,
        "run": attempt.run,
        "stage": attempt.stage,
        "attempt": attempt.number,
        "argv": stage["argv"],
        "env": stage.get("env") or {},
        "cwd": stage.get("cwd") or attempt.run_folder,
        "grace_s": stage.get("grace_s", 30),
        "request_id": order.request_id,
        "switches": order.switches,
        "chain": True,
        "settings": order.settings,
        "bundle": order.bundle,
        "created": time.time(),
        "created_boot": files.boottime(),
        "boot": processes.boot_id(),
    }


def discard(attempt: Attempt) -> None:
    """Remove an attempt that never began."""
    shutil.rmtree(attempt.folder, ignore_errors=True)
    try:
        os.rmdir(os.path.dirname(attempt.folder))
    except OSError:
        return  # it holds earlier attempts


def begin(run: Run, order: Order, secrets: Mapping[str, str]) -> Attempt:
    """Create an attempt and start it. Raises NotBegun, leaving nothing, or RemoteError when it may have begun."""
    attempt = create(run, order)
    try:
        launch(attempt, secrets)
    except NotBegun as error:
        if not os.path.lexists(attempt.status):
            discard(attempt)
        if error.kind == "no_space":
            raise no_space(run.folder, OSError(errno.ENOSPC, "")) from None
        raise
    return attempt


def ensure_begun(attempt: Attempt, secrets: Mapping[str, str]) -> None:
    """For a request that came twice: start the attempt unless it was started. Exactly one supervisor wins."""
    if os.path.lexists(attempt.status):
        return
    try:
        launch(attempt, secrets)
    except NotBegun as error:
        if error.kind != "busy":
            raise


def readings(run: Run, stages: list[str], world: World) -> list[Reading]:
    """The latest attempt of each stage that has one."""
    latest = [run.attempts(name)[-1:] for name in stages]
    return [read_attempt(attempts[0], world) for attempts in latest if attempts]


def refuse_while_live(run: Run, stages: list[str], apart_from: Attempt | None = None) -> None:
    """Raises RemoteError busy when a stage of the run is live or its last tree is not proved gone."""
    for reading in readings(run, stages, World()):
        attempt = reading.attempt
        if apart_from is not None and attempt.folder == apart_from.folder:
            continue
        if reading.live:
            raise RemoteError(
                "busy",
                f"stage {attempt.stage} of run {run.id} is {reading.view.state}",
                "stop it first (K, or `eyas stop`)",
            )
        if not reading.view.clean:
            raise RemoteError(
                "busy",
                f"processes of stage {attempt.stage}'s attempt {attempt.number} are still there",
                "stop the run first: that ends what is left of it",
            )
