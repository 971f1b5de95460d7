"""Repeating a run from its archive: the same settings, switches and conversations, on a host of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import tomlkit

from console.archive import CONFIGURATION, PROMPTS, Archive
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
    try:
        document = tomlkit.parse(archive.files[CONFIGURATION].decode("utf-8"))
    except (KeyError, ValueError) as error:
        why = f"The bundle's {CONFIGURATION} cannot be read: {error}."
        raise UserError(why, "Fetch the bundle again, or repeat it in a project of your own.") from None
    document["host"] = {"here": {"embedded": True}}
    folder = workstation_state() / "bundles" / archive.run
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(tomlkit.dumps(document), encoding="utf-8")
    return folder


def start_params(archive: Archive, project: Project, places: Mapping[str, str], target: str | None) -> dict[str, Any]:
    """Parameters of START: the archive's settings and switches, the environments and secrets of this project.

    `places` is what `hand_in` gave; a set of prompts that the archive does not hold stays where its run had it. Raises
    UserError when the archive lacks the conversations, or a setting of it was taken out as a secret.
    """
    settings = archive.settings
    _require_whole(settings, "")
    run = dict(settings.get("run") or {})
    source = str(run.get("conversations", ""))
    if place := places.get(archive.conversations or ""):
        run["conversations"] = place
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
        "settings": {"run": run, "stage": _stages(archive, places), "environment": environment},
        "switches": archive.about.get("switches") or own["switches"],
        "repeats": archive.run,
    }


def _stages(archive: Archive, places: Mapping[str, str]) -> dict[str, Any]:
    """The archive's settings of stages, the sets of prompts that it holds where they lie on this host."""
    stages = dict(archive.settings.get("stage") or {})
    evaluate = stages.get("evaluate") or {}
    if evaluate.get("prompts"):
        own = {name: places.get(archive.prompts(name) or "", path) for name, path in evaluate["prompts"].items()}
        stages["evaluate"] = {**evaluate, "prompts": own}
    return stages


def _require_whole(value: Any, place: str) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _require_whole(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, str) and "[redacted: " in value:
        raise UserError(
            f"The bundle's {place} was a secret and is not in it.",
            "Take it out of the bundle's run, and hand it on by pass_env.",
        )


def hand_in(request: Request, archive: Archive) -> dict[str, str]:
    """Put the archive's conversations and sets of prompts on the host. Returns name in the archive -> place there."""
    return {
        name: put(request, archive.files[name], PurePosixPath(name).suffix, name)
        for name in archive.files
        if name == archive.conversations or name.startswith(PROMPTS)
    }


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
