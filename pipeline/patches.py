"""The patches against the environment that a run would use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from compat.environment import Environment, pinned, read
from compat.patch import Switches
from compat.status import status_in
from pipeline import environments, settings, stages
from pipeline.settings import Settings

NOT_MADE = "The environment is not made yet: the pinned versions decide."


def patches(request: Mapping[str, Any]) -> dict[str, Any]:
    """`{"settings", "switches"}` → `{"patches": [PatchStatus…], "environment", "troubles"}`. Raises Problem.

    `environment` says what is there of speculators and vLLM, a line each; `troubles` what is missing or not known.
    """
    wanted = settings.parse(request.get("settings") or {})
    asked = request.get("switches") or {}
    switches = Switches(asked.get("mode", "auto"), tuple(asked.get("on", ())), tuple(asked.get("off", ())))
    found = _environment(wanted)
    return {
        "patches": [asdict(row) for row in status_in(found, switches)],
        "environment": [*(one.told for one in found.both), *([] if found.site else [NOT_MADE])],
        "troubles": found.troubles,
    }


def _environment(wanted: Settings) -> Environment:
    pair = stages.pair_at("extract", wanted)
    own = wanted.environment(pair).python
    if own:
        return read(environments.site_of(pair, own))
    made = environments.of(wanted, pair)
    return read(made.site) if made.complete else pinned(environments.pinned_versions(pair, made.build))
