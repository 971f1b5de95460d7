"""The subcommands of `eyas`: each is the headless twin of a key; without one the console opens."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from console import draft_commands, headless, mask_report, parse_command, reports, stranger
from console.demo import DEMO_PAIR, PAIRS, make_demo
from console.errors import UserError
from console.options import (
    AttemptOption,
    DetachOption,
    HostOption,
    JsonOption,
    ProjectOption,
    RunOption,
    StageArgument,
    answer,
)
from console.patching import in_run, require_patch, require_switch
from console.project import Project, open_project
from remote import protocol
from remote.logs.findings import Traceback
from remote.protocol import RemoteError
from remote.views import DONE, RunView
from remote.wire import from_wire, to_wire

app = typer.Typer(
    name="eyas",
    help="Train EAGLE-3 draft models on a GPU host, and see at once what broke.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
patches_app = typer.Typer(help="Compat patches: what is needed, active or off.", invoke_without_command=True)
app.add_typer(patches_app, name="patches")
draft_commands.register(app)

AROUND = 20
"""Lines shown before and behind the one asked for."""


@app.callback()
def console(ctx: typer.Context, project: ProjectOption = None, host: HostOption = None, run: RunOption = None) -> None:
    """Without a command: open the console, attached to the project's newest run."""
    if ctx.invoked_subcommand is None:
        _open_console(open_project(project, host), run=run)


@app.command()
def demo(
    pair: Annotated[
        str | None,
        typer.Option(
            help="What the hidden states are extracted with; "
            + "; ".join(f"{name}: {pair.told}" for name, pair in PAIRS.items())
            + f". Default: {DEMO_PAIR}, or where the broken patch matters.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str, typer.Option(help="tiny: trained on the spot; smollm2: SmolLM2-135M-Instruct, a real model, slow.")
    ] = "tiny",
    broken: Annotated[
        list[str] | None, typer.Option("--break", help="Switch this patch off and watch it fail.")
    ] = None,
    until: Annotated[str, typer.Option(help="The last stage to run; default: all of them.", show_default=False)] = "",
    run_headless: Annotated[bool, typer.Option("--headless", help="The same without a screen.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the whole pipeline for real on this machine, up to a draft model that is served: no GPU is needed."""
    made = make_demo(pair, target, tuple(broken or ()), until)
    if made.note:
        typer.echo(made.note, err=True)
    project = open_project(made.folder)
    if run_headless:
        _run(project, detach=False, as_json=as_json)
    else:
        _open_console(project, start=True)


@app.command()
def run(
    project: ProjectOption = None,
    host: HostOption = None,
    from_bundle: draft_commands.BundleOption = None,
    target: draft_commands.TargetOption = None,
    detach: DetachOption = False,
    as_json: JsonOption = False,
) -> None:
    """Start the pipeline as a new run and follow it to its end."""
    if from_bundle is not None:
        draft_commands.repeat_run(from_bundle, project, host, target, detach, as_json)
    elif target is not None:
        raise UserError("--target goes with --from-bundle alone.", "Set run.target in eyas.toml.")
    else:
        _run(open_project(project, host), detach, as_json)


@app.command()
def relaunch(
    stage: StageArgument = None,
    project: ProjectOption = None,
    host: HostOption = None,
    run: RunOption = None,
    detach: DetachOption = False,
    as_json: JsonOption = False,
) -> None:
    """Relaunch a stage as a new attempt, with the switches as they are now, and go on from there."""
    with headless.connected(open_project(project, host)) as connection:
        view = connection.run(run)
        if stage is None and view.failed_stage is None:
            raise UserError(f"No stage of run {view.run} has failed.", "Name one: `eyas relaunch STAGE`.")
        chosen = headless.choose_stage(view, stage)
        connection.relaunch(view.run, chosen.name)
        _finish(connection, view.run, detach, as_json)


@app.command()
def stop(
    project: ProjectOption = None, host: HostOption = None, run: RunOption = None, as_json: JsonOption = False
) -> None:
    """Stop the running stage: TERM, a grace period, then KILL of its whole process tree."""
    with headless.connected(open_project(project, host)) as connection:
        view = connection.run(run)
        stopped = connection.request(protocol.STOP, run=view.run)
        text = f"Stopping {stopped['stage']}, attempt {stopped['attempt']}, of run {view.run}."
        answer({"run": view.run, **stopped}, text, as_json)


@app.command()
def status(
    project: ProjectOption = None,
    host: HostOption = None,
    run: RunOption = None,
    all_runs: Annotated[bool, typer.Option("--all", help="A line for each run of the project.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show where the run stands."""
    with headless.connected(open_project(project, host)) as connection:
        if all_runs:
            views = connection.runs()
            body = {"runs": [reports.run_json(view) for view in views]}
            answer(body, "\n".join(reports.run_line(view) for view in views), as_json)
            return
        view = connection.run(run)
        answer(reports.run_json(view), reports.run_text(view), as_json)


@app.command()
def tracebacks(
    stage: StageArgument = None,
    project: ProjectOption = None,
    host: HostOption = None,
    run: RunOption = None,
    attempt: AttemptOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what broke: the root cause first, and the patch that mends it."""
    with headless.connected(open_project(project, host)) as connection:
        view = connection.run(run)
        chosen = headless.choose_stage(view, stage)
        if attempt is not None:
            shown = connection.request(protocol.SHOW, run=view.run, stage=chosen.name, attempt=attempt)
            view = from_wire(RunView, shown["run"])
            chosen = headless.choose_stage(view, chosen.name)
        report = reports.tracebacks_json(view, chosen, attempt, connection.patches_if_known())
        strange = reports.root_cause(chosen.findings) if reports.is_strange(report) else None
        told = _ask_drift(connection, strange, report) if strange else []
        answer(report, reports.tracebacks_text(report, told), as_json)


def _ask_drift(connection: headless.Connection, strange: Traceback, report: dict[str, Any]) -> list[str]:
    """Adds what the drift probe finds about a traceback that no patch explains; gives it in lines too."""
    try:
        found = stranger.findings_about(connection.drift().report.findings, strange.frames)
    except RemoteError as error:
        return [f"the drift probe was not asked: {error.message}"]
    report["drift"] = to_wire(found)
    return list(stranger.told(found))


@app.command()
def logs(
    stage: StageArgument = None,
    project: ProjectOption = None,
    host: HostOption = None,
    run: RunOption = None,
    attempt: AttemptOption = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the attempt ends.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="The log's own bytes, for a file: not safe on a terminal.")
    ] = False,
    around: Annotated[int | None, typer.Option(min=1, help="Only what stands around this line.")] = None,
    at: Annotated[int | None, typer.Option(min=0, help="Only what stands around this byte offset.")] = None,
    at_time: Annotated[
        str | None, typer.Option("--time", help="Only what stands around this time, as the log prints it.")
    ] = None,
    search: Annotated[str | None, typer.Option(help="Only lines that match this regular expression.")] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="Only where its errors begin, each with its offset.")
    ] = False,
    next_error: Annotated[
        int | None, typer.Option(min=1, help="Only what stands around the first error behind this line.")
    ] = None,
    previous_error: Annotated[
        int | None, typer.Option(min=1, help="Only what stands around the last error before this line.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print a stage's log, or only some lines of it: those are looked up on the host."""
    places = {"line": around, "offset": at, "time": at_time}
    asked: dict[str, Any] = {key: value for key, value in places.items() if value is not None}
    ways = (search, next_error, previous_error, errors or None, (follow or raw) or None)
    if len(asked) + sum(way is not None for way in ways) > 1:
        raise UserError(
            "A log is shown in one way at a time.",
            "Give one of --around, --at, --time, --search, --errors, --next-error, --previous-error, -f, --raw.",
        )
    with headless.connected(open_project(project, host)) as connection:
        view = connection.run(run)
        chosen = headless.choose_stage(view, stage)
        where = (view.run, chosen.name, attempt or (chosen.latest.number if chosen.latest else 0))
        if errors:
            _say(reports.log_errors(connection.log_hits(*where, errors=True), as_json))
            return
        if search is not None:
            _say(reports.log_rows(connection.log_hits(*where, pattern=search), as_json))
            return
        if (line := next_error or previous_error) is not None:
            asked["offset"] = connection.log_error(*where, line, back=next_error is None)
        if asked:
            around_it = {**asked, "before": AROUND, "rows": AROUND + 1}
            _say(reports.log_rows(connection.log_page(*where, around_it), as_json))
            return
        for data in reports.log_output(connection.log_bytes(*where, follow), raw, as_json):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


@app.command(
    help=parse_command.HELP,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def parse(ctx: typer.Context) -> None:
    """Reads its own command line; `console.cli` goes there straight."""
    raise typer.Exit(parse_command.main(ctx.args))


@app.command()
def check(
    drift: Annotated[bool, typer.Option("--drift", help="What of speculators does not fit the vLLM there.")] = False,
    site: Annotated[
        Path | None, typer.Option("--site", help="Check site-packages on this machine instead.", show_default=False)
    ] = None,
    architecture: Annotated[str, typer.Option(help="With --site: class of the target model.", show_default=False)] = "",
    project: ProjectOption = None,
    host: HostOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check before the load. Exit status: 0 nothing that fails, 1 something without a patch on, 2 unreadable."""
    if not drift:
        raise UserError("`eyas check` must be told what to check.", "Write `eyas check --drift`.")
    from console import check_command  # the probe is not needed to start

    raise typer.Exit(check_command.drift(project, host, site, architecture, as_json))


@app.command()
def prepare(
    show: Annotated[int | None, typer.Option("--show", min=0, help="Number of the sample, from 0.")] = None,
    project: ProjectOption = None,
    host: HostOption = None,
    run: RunOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a sample of the run's dataset with its loss mask: what is trained on stands out."""
    if show is None:
        raise UserError("`eyas prepare` must be told what to show.", "Write `eyas prepare --show 0`.")
    with headless.connected(open_project(project, host)) as connection:
        view = connection.run(run)
        sample = connection.sample(view.run, show)
        answer({"run": view.run, **sample}, "\n".join(mask_report.lines(sample)), as_json)


@patches_app.callback()
def patches(
    ctx: typer.Context, project: ProjectOption = None, host: HostOption = None, as_json: JsonOption = False
) -> None:
    """List the patches against the run's environment."""
    if ctx.invoked_subcommand is None:
        patches_list(project, host, as_json)


@patches_app.command("list")
def patches_list(project: ProjectOption = None, host: HostOption = None, as_json: JsonOption = False) -> None:
    """List the patches against the run's environment."""
    with headless.connected(open_project(project, host)) as connection:
        told = connection.patches()
        told = replace(told, patches=in_run(told.patches, connection.newest()))
        answer(to_wire(told), reports.patches_text(told), as_json)


@patches_app.command("show")
def patches_show(
    patch: str, project: ProjectOption = None, host: HostOption = None, as_json: JsonOption = False
) -> None:
    """Show one patch: what breaks and why, the patch's code, the code it replaces, what the newest run did with it."""
    require_patch(patch)
    with headless.connected(open_project(project, host)) as connection:
        run = connection.newest()
        found = next((p for p in in_run(connection.patches().patches, run) if p.id == patch), None)
        if found is None:
            raise UserError(f"The host does not know the patch `{patch}`.", "Connect with this version of Eyas.")
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 80
        answer(reports.patch_json(found, run), reports.patch_text(found, run, width), as_json)


def _switch(patch: str, to: str, project: Path | None, as_json: bool) -> None:
    require_switch(patch)
    opened = open_project(project)
    opened.set_switch(patch, to)
    text = f"{patch} is {to} in {opened.file}; it takes effect at the next launch (`eyas relaunch`)."
    answer({"patch": patch, "switch": to, "file": str(opened.file)}, text, as_json)


@patches_app.command("on")
def patches_on(patch: str, project: ProjectOption = None, as_json: JsonOption = False) -> None:
    """Switch a patch on for this project."""
    _switch(patch, "on", project, as_json)


@patches_app.command("off")
def patches_off(patch: str, project: ProjectOption = None, as_json: JsonOption = False) -> None:
    """Switch a patch off for this project."""
    _switch(patch, "off", project, as_json)


@patches_app.command("auto")
def patches_auto(patch: str, project: ProjectOption = None, as_json: JsonOption = False) -> None:
    """Let the patch's own probe decide again."""
    _switch(patch, "auto", project, as_json)


def _run(project: Project, detach: bool, as_json: bool) -> None:
    with headless.connected(project) as connection:
        _finish(connection, connection.start(), detach, as_json)


def _finish(connection: headless.Connection, run: str, detach: bool, as_json: bool) -> None:
    """Follow the run and answer with its end; exit status 1 unless every stage succeeded."""
    view = headless.follow_told(connection, run, detach)
    if view is None:
        answer({"run": run}, f"Run {run} goes on; follow it with `eyas status`.", as_json)
        return
    answer(reports.run_json(view), reports.run_text(view), as_json)
    if view.state != DONE:
        raise typer.Exit(1)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


def _open_console(project: Project, run: str | None = None, start: bool = False) -> None:
    from console.launch import open_console

    open_console(project, run=run, start=start)
