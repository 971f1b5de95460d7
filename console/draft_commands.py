"""The commands about the draft model's training: what it measures."""

from __future__ import annotations

import shutil
import sys

import typer

from console import headless, metrics_report
from console.options import HostOption, JsonOption, ProjectOption, RunOption, StageArgument, answer
from console.project import open_project


def register(app: typer.Typer) -> None:
    app.command()(metrics)


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
