"""The commands about whole runs and what they measure: metrics, the archive of a run, repeating one."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from console import archive, bundling, headless, metrics_report, repeat, sweep_command
from console.archive import Archive
from console.options import HostOption, JsonOption, ProjectOption, RunOption, StageArgument, answer
from console.project import Project, open_project
from console.sanitise import sanitise
from remote.views import DONE, RunView

BundleOption = Annotated[
    Path | None,
    typer.Option("--from-bundle", help="Repeat the run in this archive, and compare.", show_default=False),
]
TargetOption = Annotated[
    str | None,
    typer.Option("--target", help="With --from-bundle: the target's folder on this host.", show_default=False),
]


def register(app: typer.Typer) -> None:
    app.command()(metrics)
    app.command()(bundle)
    app.command()(sweep_command.sweep)


def metrics(
    stage: StageArgument = None,
    project: ProjectOption = None,
    host: HostOption = None,
    run: RunOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a stage measured: the course of training, and acceptance as evaluation measured it."""
    with headless.connected(open_project(project, host)) as connection:
        view = connection.run(run)
        curves = connection.curves(view.run)
        chosen = headless.choose_stage(view, stage or metrics_report.telling_stage(view, curves))
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 100
        body = metrics_report.metrics_json(view, chosen, curves)
        answer(body, metrics_report.metrics_text(view, chosen, curves, width), as_json)


def bundle(
    run: Annotated[str | None, typer.Argument(help="A run's id; default: the newest.", show_default=False)] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Default: RUN.eyas.tar.gz here.", show_default=False)
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="Write none: compare the run's figures with this archive.", show_default=False),
    ] = None,
    project: ProjectOption = None,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write one archive with which another person can repeat a run: settings, versions, patches, records, figures."""
    opened = open_project(project, host)
    if against is not None:
        _compare(archive.read(against), opened, run, as_json)
        return
    with headless.connected(opened) as connection:
        view = connection.run(run)
        secrets = opened.host.secrets()
        gathered = bundling.gather(connection.request, view, secrets, lambda words: _progress(f"fetching {words}"))
        data = bundling.make(gathered, view, opened.host.pass_env, opened.host.embedded)
    file = (output or Path(f"{view.run}.eyas.tar.gz")).resolve()
    archive.write(file, data)
    made = archive.read(file)
    unset = [name for name in opened.host.pass_env if name not in secrets]
    text = [
        f"{file}, {len(data):,} bytes: {len(made.files)} files of run {view.run}.",
        str(made.about["conversations"]),
    ]
    text += [f"not inside: {entry['path']}: {entry['why']}" for entry in made.about["left_out"]]
    text += [f"taken out of {entry['path']}: {', '.join(entry['what'])}" for entry in made.about["redacted"]]
    text += [f"{name} is not set here, so its value could not be looked for." for name in unset]
    body = {"file": str(file), "bytes": len(data), "not_looked_for": unset, **made.about}
    answer(body, "\n".join(sanitise(line) for line in text), as_json)


def repeat_run(
    file: Path, project: Path | None, host: str | None, target: str | None, detach: bool, as_json: bool
) -> None:
    """`eyas run --from-bundle`. Exit status 1 when the run does not succeed or a figure is not the bundle's."""
    given = archive.read(file)
    opened = repeat.project_for(given, project, host)
    with headless.connected(opened) as connection:
        places = repeat.hand_in(connection.request, given)
        started = connection.start(repeat.start_params(given, opened, places, target))
        view = headless.follow_told(connection, started, detach)
        if view is None:
            remedy = f"follow it with `eyas status`, then `eyas bundle {started} --against {file}`."
            answer({"run": started}, f"Run {started} goes on; {remedy}", as_json)
            return
        _answer_compared(connection, given, view, as_json)


def _compare(given: Archive, opened: Project, run: str | None, as_json: bool) -> None:
    with headless.connected(opened) as connection:
        _answer_compared(connection, given, connection.run(run), as_json)


def _answer_compared(connection: headless.Connection, given: Archive, view: RunView, as_json: bool) -> None:
    found = bundling.fetch_figures(connection.request, view.run)
    body = {**repeat.report_json(given, view.run, found), "state": view.state}
    text = [repeat.report_text(given, view.run, found)]
    if view.state != DONE:
        text.append(f"Run {view.run} is {view.state}, and that of the bundle was {given.about.get('state')}.")
    answer(body, "\n".join(text), as_json)
    if not body["equal"] or view.state != DONE:
        raise typer.Exit(1)


def _progress(words: str) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r\x1b[K{sanitise(words)[:100]}", err=True, nl=False)
