"""`eyas sweep`: a small grid over one data set, started, shown, stopped."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from console import headless, sweep_report
from console.errors import UserError
from console.options import DetachOption, HostOption, JsonOption, ProjectOption, answer
from console.project import open_project
from console.sanitise import sanitise
from remote import protocol
from remote.views import DONE, RUNNING, WAITING, SweepView
from remote.wire import from_wire

LOOK_EVERY = 2.0
START_TIMEOUT = 600.0
"""The host plans every point."""
WHOLE = ("ttt_steps", "epochs", "draft_vocabulary")
"""Axes of whole numbers."""


def sweep(
    name: Annotated[
        str | None, typer.Argument(metavar="[SWEEP]", help="With --show, --stop, --resume. Default: the newest.")
    ] = None,
    lr: Annotated[str | None, typer.Option(help="Learning rates, such as 1e-3,2e-3.", show_default=False)] = None,
    ttt_steps: Annotated[str | None, typer.Option(help="Steps of training-time test.", show_default=False)] = None,
    epochs: Annotated[str | None, typer.Option(help="Times that every sample is seen.", show_default=False)] = None,
    draft_vocabulary: Annotated[str | None, typer.Option(help="Tokens of the draft model.", show_default=False)] = None,
    base: Annotated[
        str | None, typer.Option(help="Run with the data. Default: the newest verified.", show_default=False)
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Compare the points in a table.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop what runs; no further point begins.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was stopped or has not begun.")] = False,
    project: ProjectOption = None,
    host: HostOption = None,
    detach: DetachOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a small grid over one data set, nothing extracted again, and compare the points."""
    given = {"lr": lr, "ttt_steps": ttt_steps, "epochs": epochs, "draft_vocabulary": draft_vocabulary}
    axes = {axis: _values(axis, text) for axis, text in given.items() if text is not None}
    if (show + stop + resume) + bool(axes) != 1:
        raise UserError(
            "A sweep is started by its axes, or shown, stopped or resumed.",
            "Write `eyas sweep --lr 1e-3,2e-3`, or one of --show, --stop, --resume.",
        )
    opened = open_project(project, host)
    with headless.connected(opened) as connection:
        if axes:
            params = opened.start_params()
            asked = {key: params[key] for key in ("project", "switches", "secrets")}
            asked |= {"base": base or _verified(connection), "axes": axes, "request_id": uuid.uuid4().hex}
            name = str(connection.request(protocol.SWEEP, timeout=START_TIMEOUT, **asked)["sweep"])
        elif stop or resume:
            name = name or _look(connection, None).sweep
            secrets = opened.host.secrets()
            connection.request(protocol.SWEEP_STOP, sweep=name, stopped=stop, secrets=secrets)
        view = _look(connection, name)
        if not (show or stop or detach):
            view = _follow(connection, view)
        answer(sweep_report.sweep_json(view), sweep_report.sweep_text(view), as_json)
        if not (show or stop or detach) and any(point.state != DONE for point in view.points):
            raise typer.Exit(1)


def _values(axis: str, text: str) -> list[float]:
    """Raises UserError for what is no list of different numbers."""
    option = f"--{axis.replace('_', '-')}"
    parts = [part.strip() for part in text.split(",")]
    try:
        found: list[float] = [int(part) if axis in WHOLE else float(part) for part in parts]
    except ValueError:
        kind = "whole numbers" if axis in WHOLE else "numbers"
        why = f"{option} is {text!r}, which is no list of {kind}."
        raise UserError(why, f"Write {option} {_example(axis)}") from None
    if not all(0 < value < float("inf") for value in found) or len(set(found)) != len(found):
        raise UserError(
            f"{option} is {text!r}: its values must be above 0 and different.", f"Write {option} {_example(axis)}"
        )
    return found


def _example(axis: str) -> str:
    return {"lr": "1e-3,2e-3", "draft_vocabulary": "8000,32000"}.get(axis, "2,3") + "."


def _verified(connection: headless.Connection) -> str:
    """The project's newest run of its own data that passed verify. Raises UserError."""
    for run in connection.runs():
        stage = run.stage("verify")
        if not run.sweep and stage is not None and stage.state == DONE:
            return run.run
    raise UserError(
        f"Project `{connection.project.name}` has no run with verified data on {connection.project.host.name}.",
        "Start one: `eyas run`.",
    )


def _look(connection: headless.Connection, name: str | None) -> SweepView:
    # With an id of its own the question waits for the next link when this one is lost: the sweep needs none.
    params: Mapping[str, Any] = {
        "sweep": name,
        "project": connection.project.name,
        "request_id": uuid.uuid4().hex,
    }
    return from_wire(SweepView, connection.request(protocol.SWEEPS, timeout=START_TIMEOUT, **params)["sweep"])


def _follow(connection: headless.Connection, view: SweepView) -> SweepView:
    """Look again and again until nothing of the sweep runs or is to begin."""
    seen: dict[str, str] = {}
    while True:
        for row in sweep_report.rows(view):
            if seen.get(row.point.run) != row.point.state:
                seen[row.point.run] = row.point.state
                values = " ".join(f"{k}={v:g}" for k, v in row.point.values.items())
                typer.echo(sanitise(f"point {row.number}, {values}: {row.point.state}"), err=True)
        if not _goes_on(view):
            return view
        time.sleep(LOOK_EVERY)
        view = _look(connection, view.sweep)


def _goes_on(view: SweepView) -> bool:
    running = any(point.state == RUNNING for point in view.points)
    begun = any(point.state == WAITING and not point.error for point in view.points)
    stopped = view.stopped or any(point.state in ("stopped", "lost") for point in view.points)
    return running or (begun and not stopped)
