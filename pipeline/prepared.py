"""What a data set was made with. A stage may be relaunched with other settings than `prepare` ran with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline import dataset, identity
from pipeline.report import StageError, note
from pipeline.settings import Settings


def of(wanted: Settings, target: Path) -> dict[str, Any]:
    """For `dataset.json`."""
    return {
        "conversations": wanted.conversations,
        "target": str(target),
        "tokenizer": identity.tokenizer_digest(target),
        "max_length": wanted.max_length,
        "long": wanted.long,
    }


def require(wanted: Settings, target: Path, folder: Path) -> None:
    """Raises StageError when the data set in `folder` has other tokens than `prepare` would make now, and notes where
    it has other conversations."""
    try:
        about = json.loads((folder / dataset.ABOUT).read_text(encoding="utf-8"))
        known = {key: (about[key], now) for key, now in of(wanted, target).items() if key in about}
    except (OSError, ValueError, TypeError) as error:
        raise StageError(f"{folder / dataset.ABOUT} cannot be read ({error}); relaunch the stage prepare.") from error
    other = {key: pair for key, pair in known.items() if pair[0] != pair[1]}
    if "tokenizer" in other:
        raise StageError(
            f"The data set in {folder} was made with another tokenizer or chat template, of {about.get('target')}, "
            f"than {target} has now: its tokens would mean something else. Relaunch the stage prepare."
        )
    if "max_length" in other:
        before, now = other["max_length"]
        raise StageError(
            f"The data set in {folder} was made for run.max_length {before}, and it is {now} now. Relaunch the stage "
            "prepare, or put it back."
        )
    for key, name in (("conversations", "run.conversations"), ("long", "stage.prepare.long")):
        if key in other:
            before, now = other[key]
            note(f"The data set is that of {name} {before!r}; {now!r} counts once the stage prepare is relaunched.")
