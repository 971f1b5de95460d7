"""Repeating a run from its archive: the same settings, switches and conversations, on a host of one's own."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import tomlkit

from console.archive import CONFIGURATION, Archive
from console.errors import UserError
from console.figures import compare, verdict
from console.project import FILE, Project, open_project, workstation_state
from console.reports import sanitise_lines
from console.sending import Request, put


def project_for(archive: Archive, folder: Path | None, host: str | None) -> Project:
    """The operator's own project; without one, a project made of the archive, where the run was on an embedded host.

    Raises UserError.
    """
    here = Path.cwd()
    if folder is None and not any((place / FILE).is_file() for place in (here, *here.parents)):
        if not archive.about.get("embedded"):
            raise UserError(
                "There is no eyas.toml here that names a host to repeat the run on.",
                "Write one with a [host.NAME], or name its folder with --project.",
            )
        folder = _make_project(archive)
    return open_project(folder, host)


def _make_project(archive: Archive) -> Path:
    document = tomlkit.parse(archive.files[CONFIGURATION].decode("utf-8"))
    document["host"] = {"here": {"embedded": True}}
    folder = workstation_state() / "bundles" / archive.run
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(tomlkit.dumps(document), encoding="utf-8")
    return folder


def start_params(archive: Archive, project: Project, conversations: str | None, target: str | None) -> dict[str, Any]:
    """Parameters of START: the archive's settings and switches, the environments and secrets of this project.

    `conversations`: where they lie on this host; None leaves what the archive says. Raises UserError when a setting of
    the archive was taken out as a secret.
    """
    settings = archive.settings
    _require_whole(settings, "")
    run = dict(settings.get("run") or {})
    source = str(run.get("conversations", ""))
    if conversations:
        run["conversations"] = conversations
    elif source.startswith("/"):
        raise UserError(
            f"The bundle does not hold the conversations of its run, {PurePosixPath(source).name}.",
            "Bundle it again where the conversations are below 64 MiB and hold no secret.",
        )
    if target:
        run["target"] = target
    own = project.start_params()
    environment = own["settings"].get("environment") or {}
    return {
        **own,
        "settings": {"run": run, "stage": settings.get("stage") or {}, "environment": environment},
        "switches": archive.about.get("switches") or own["switches"],
    }


def _require_whole(value: Any, place: str) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _require_whole(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, str) and "[redacted: " in value:
        raise UserError(
            f"The bundle's {place} was a secret and is not in it.",
            "Take it out of the bundle's run, and hand it on by pass_env.",
        )


def hand_in(request: Request, archive: Archive) -> str | None:
    """Put the archive's conversations on the host. Returns their place there; None when the archive has none."""
    name = archive.conversations
    if name is None:
        return None
    return put(request, archive.files[name], PurePosixPath(name).suffix, name)


def report_json(archive: Archive, run: str, found: dict[str, Any]) -> dict[str, Any]:
    compared = compare(archive.figures, found)
    return {
        "bundle": archive.run,
        "run": run,
        "equal": all(one.equal for one in compared),
        "verdict": verdict(compared),
        "figures": {one.name: {"expected": one.expected, "found": one.found, "equal": one.equal} for one in compared},
    }


def report_text(archive: Archive, run: str, found: dict[str, Any]) -> str:
    compared = compare(archive.figures, found)
    lines = [f"run {run} beside run {archive.run} of the bundle", *(f"  {one.told}" for one in compared)]
    return sanitise_lines([*lines, verdict(compared)])
