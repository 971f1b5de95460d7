"""The patches against the environment that a run would use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compat.patch import Switches
from compat.status import status
from pipeline import environments, settings


def patches(request: Mapping[str, Any]) -> dict[str, Any]:
    """`{"settings", "switches"}` → `{"patches": [PatchStatus…]}`. Raises Problem."""
    wanted = settings.parse(request.get("settings") or {})
    asked = request.get("switches") or {}
    switches = Switches(asked.get("mode", "auto"), tuple(asked.get("on", ())), tuple(asked.get("off", ())))
    pinned = environments.pinned_versions(wanted.pair)
    site: Path | None
    if wanted.python:
        site = environments.site_of(wanted.pair, wanted.python)
    else:
        environment = environments.locate(wanted.pair, environments.base_python(wanted.pair)[1])
        site = environment.site if environment.complete else None
    return {"patches": [asdict(row) for row in status(site, switches, pinned)]}
