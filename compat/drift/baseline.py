"""The facts that ship with Eyas: what each release of a caller relies on in the vLLM that it declares.

`python -m compat.drift.record` makes them from the two wheels; they hold names, defaults and annotations, no code.
"""

from __future__ import annotations

import json
from pathlib import Path

from compat.drift.facts import Facts, from_json, to_json

FOLDER = Path(__file__).parent / "baselines"


def load(package: str, version: str) -> Facts | None:
    """The facts of a release of a caller; None when none are kept."""
    try:
        text = (FOLDER / f"{package}-{version}.json").read_text(encoding="utf-8")
    except OSError:
        return None
    return from_json(json.loads(text))


def save(facts: Facts, folder: Path) -> Path:
    """Writes the facts under the caller's name and version."""
    path = folder / f"{facts.caller.replace(' ', '-')}.json"
    path.write_text(json.dumps(to_json(facts), indent=1) + "\n", encoding="utf-8")
    return path
