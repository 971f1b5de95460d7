"""`checkpoints/training.json`: what a training is bound to, and its figures after each epoch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pipeline import files

FILE = "training.json"
BOUND = {"data": "data", "target": "target model", "vocabulary": "draft vocabulary", "recipe": "recipe"}
"""What must be the same for a training to go on → in words."""


@dataclass
class Record:
    data: str
    """`store.data_digest` of the samples."""
    target: str
    vocabulary: str
    recipe: str
    about: Mapping[str, Any] = field(default_factory=dict)
    """The recipe in full."""
    history: list[dict[str, Any]] = field(default_factory=list)
    """An entry an epoch: `epoch` (from 1), `step`, `checkpoint`, `acceptance`, `loss` and `accuracy` on held-out
    samples; `lost` where the checkpoint is not whole any more."""
    finished: str = ""
    """Why training ended, in a sentence; "" while it has not."""

    @property
    def best(self) -> dict[str, Any] | None:
        """The entry of the highest acceptance whose checkpoint is not lost, the earlier of equals."""
        kept = (entry for entry in self.history if not entry.get("lost"))
        return max(kept, key=lambda entry: entry["acceptance"], default=None)

    @property
    def stale(self) -> int:
        """Epochs since the best."""
        best = self.best
        return self.history[-1]["epoch"] - best["epoch"] if best else 0

    def differences(self, other: Record) -> list[str]:
        """In what two trainings differ, so that one cannot go on from the other."""
        return [words for name, words in BOUND.items() if getattr(self, name) != getattr(other, name)]

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        files.write_whole(folder / FILE, json.dumps({**asdict(self), "best": self.best}, indent=1).encode())


def read(folder: Path) -> Record | None:
    """None where there is none that can be read."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        found.pop("best", None)
        return Record(**found)
    except (OSError, ValueError, TypeError):
        return None


def aside(folder: Path) -> Path:
    """Moves a folder of checkpoints out of the way and says where to: nothing trained is ever thrown away."""
    number = 1
    while (place := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    folder.rename(place)
    return place
