"""The demo's project: the whole pipeline on an embedded host, with a tiny target made on the spot."""

from __future__ import annotations

from pathlib import Path

import tomlkit

from console.errors import UserError, nearest
from console.patching import require_switch
from console.project import FILE, workstation_state

PAIRS = {"seed": "speculators 0.3.0 on vLLM 0.16.0", "current": "speculators 0.9.0 on vLLM 0.32.0"}
DEMO_PAIR = "seed"


def make_demo(pair: str, broken: tuple[str, ...]) -> Path:
    """Write the demo's eyas.toml anew, with `broken` patches switched off, and give its folder."""
    if pair not in PAIRS:
        raise UserError(f"There is no pair `{pair}`.", nearest(pair, list(PAIRS)))
    for patch in broken:
        require_switch(patch)
    document = tomlkit.document()
    document.add(tomlkit.comment("Made by `eyas demo`, anew each time."))
    document["project"] = "demo"
    document["host"] = {"demo": {"embedded": True}}
    document["run"] = {"target": "tiny", "conversations": "stdlib", "pair": pair, "max_length": 256}
    document["patches"] = {"mode": "auto", "off": list(broken)}
    folder = workstation_state() / "demo"
    folder.mkdir(exist_ok=True)
    (folder / FILE).write_text(tomlkit.dumps(document), encoding="utf-8")
    return folder
