"""A project's switches: which patches are applied, left out, or left to their probe."""

from __future__ import annotations

import json
from typing import Literal

from compat.patch import Patch, Switches

VARIABLE = "EYAS_SWITCHES"
Switch = Literal["auto", "on", "off"]


def parse(text: str) -> Switches:
    """Switches from JSON `{"mode", "on", "off"}`; '' means the defaults. Raises ValueError."""
    if not text.strip():
        return Switches()
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError(f"the switches are no object: {text[:80]!r}")
    mode = data.get("mode", "auto")
    if mode not in ("auto", "off"):
        raise ValueError(f'the mode of the switches is {mode!r}; it must be "auto" or "off"')
    lists = []
    for key in ("on", "off"):
        names = data.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"`{key}` of the switches must be a list of patch ids, not {names!r}")
        lists.append(tuple(names))
    return Switches(mode=mode, on=lists[0], off=lists[1])


def switch_of(patch: Patch, switches: Switches) -> Switch:
    """The switch that counts for one patch. A patch named both ways is off."""
    if patch.id in switches.off:
        return "off"
    if patch.id in switches.on:
        return "on"
    return "off" if switches.mode == "off" else "auto"
