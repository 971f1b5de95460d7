"""`eyas check --drift`: what of speculators does not fit the vLLM of an environment, and an exit status for scripts.

The environment is the one that the project's runs use on its host, or a folder on this machine.
"""

from __future__ import annotations

import json
from pathlib import Path

import typer

from compat.drift.command import check
from compat.drift.library import Unreadable
from compat.drift.report import Judged, lines
from compat.patch import Switches
from console import headless
from console.errors import UserError
from console.project import open_project
from console.sanitise import sanitise
from remote.wire import to_wire


def drift(project: Path | None, host: str | None, site: Path | None, architecture: str, as_json: bool) -> int:
    """Prints the report and gives the exit status. Raises UserError: nothing could be checked."""
    judged = _of_folder(site, architecture) if site else _of_host(project, host)
    typer.echo(json.dumps(to_wire(judged), indent=2) if as_json else "\n".join(map(sanitise, lines(judged))))
    return judged.verdict


def _of_folder(site: Path, architecture: str) -> Judged:
    try:
        return check(site, Switches(), architecture)
    except Unreadable as error:
        raise UserError(str(error), "Name site-packages of an environment with speculators and vLLM.") from None


def _of_host(project: Path | None, host: str | None) -> Judged:
    with headless.connected(open_project(project, host)) as connection:
        return connection.drift()
