"""Opens the Textual console for a project: the only place where the command line meets the app."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from console.app import EyasApp
from console.project import Project


def open_console(project: Project, run: str | None = None, start: bool = False) -> None:
    """Run the app until the operator quits; says on the terminal what goes on without it."""

    def session(asker: Any, on_link: Callable[[Any], None], on_push: Callable[[dict[str, Any]], None]) -> Any:
        # paramiko is slow to import: only now, behind the first paint.
        from remote.session import HostSession

        return HostSession(project.host, asker, on_link, on_push)

    EyasApp(project, session, run=run, start=start).run()
