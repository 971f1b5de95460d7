"""What of speculators does not fit the vLLM of the environment that a run would use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compat.drift.command import check
from compat.drift.library import Unreadable
from compat.patch import Switches
from pipeline import environments, settings, stages
from pipeline.problem import Problem
from pipeline.settings import Settings


def drift(request: Mapping[str, Any]) -> dict[str, Any]:
    """`{"settings", "switches"}` → `{"drift": Judged}`. Raises Problem."""
    wanted = settings.parse(request.get("settings") or {})
    asked = request.get("switches") or {}
    switches = Switches(asked.get("mode", "auto"), tuple(asked.get("on", ())), tuple(asked.get("off", ())))
    try:
        return {"drift": asdict(check(_site(wanted), switches, _architecture(wanted)))}
    except Unreadable as error:
        raise Problem("bad_settings", str(error), "Name another environment, or have `eyas run` make one.") from None


def _site(wanted: Settings) -> Path:
    pair = stages.pair_at("extract", wanted)
    own = wanted.environment(pair).python
    if own:
        return environments.site_of(pair, own)
    environment = environments.of(wanted, pair)
    if not environment.complete:
        raise Problem(
            "bad_settings",
            f"The {pair} environment is not made yet on this host, so there are no sources to check.",
            f"Start `eyas run`, whose first stage makes it, or name a ready one in environment.{pair}.python.",
        )
    return environment.site


def _architecture(wanted: Settings) -> str:
    """The target model's class, as its config.json names it; "" where that cannot be read: `check` says more."""
    if wanted.makes_target:
        return ""
    try:
        config = json.loads((Path(wanted.target).expanduser() / "config.json").read_text(encoding="utf-8"))
        return str(config["architectures"][0])
    except (OSError, ValueError, LookupError, TypeError):
        return ""
