"""Options that several commands share, and how a command answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

ProjectOption = Annotated[Path | None, typer.Option("--project", help="Folder with an eyas.toml.", show_default=False)]
HostOption = Annotated[str | None, typer.Option("--host", help="Which host of eyas.toml.", show_default=False)]
RunOption = Annotated[str | None, typer.Option("--run", help="A run's id; default: the newest.", show_default=False)]
StageArgument = Annotated[str | None, typer.Argument(help="Default: the one that runs or failed.", show_default=False)]
AttemptOption = Annotated[int | None, typer.Option("--attempt", help="Default: the latest.", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
DetachOption = Annotated[bool, typer.Option("--detach", help="Do not wait for the end.")]


def answer(body: Any, text: str, as_json: bool) -> None:
    typer.echo(json.dumps(body, indent=1) if as_json else text)
