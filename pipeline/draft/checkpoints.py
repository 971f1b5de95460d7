"""Checkpoints of a training: each whole or not there, the best one linked as `best`, old ones pruned.

    checkpoints/step-00000120/        config.json, model.safetensors: the draft model as an engine serves it
                              training.pt: what training goes on from
                              eyas-complete.json: size and sha256 of every file
    checkpoints/best -> step-00000120
    checkpoints/training.json         what was trained on, and the figures after each epoch

A checkpoint is written beside its place and renamed into it. Only the newest ones keep what training goes on from.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipeline import files
from pipeline.report import StageError

COMPLETE = "eyas-complete.json"
BEST = "best"
RESUME = "training.pt"
"""What training goes on from, of a checkpoint."""
KEPT = 2
"""Newest checkpoints that training can go on from: the one before, should the newest be damaged."""
_NAME = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class Checkpoint:
    folder: Path
    step: int
    """Optimiser steps until then."""


def best(folder: Path) -> Path:
    """The folder of the best checkpoint, whole. Raises StageError when there is none."""
    try:
        found = folder / (folder / BEST).readlink()
    except OSError:
        raise StageError(f"There is no trained draft model in {folder}; run the stage train first.") from None
    fault = damage(found)
    if fault:
        raise StageError(f"The best checkpoint {found} is cut short ({fault}); run the stage train again.")
    return found


def has_best(folder: Path) -> bool:
    """Whether `best` leads to a whole checkpoint."""
    return (folder / BEST).is_symlink() and not damage(folder / BEST)


def name(step: int) -> str:
    return f"step-{step:08d}"


def every(folder: Path) -> list[Checkpoint]:
    """Checkpoints in place, whole or not, the oldest first."""
    paths = folder.iterdir() if folder.is_dir() else ()
    named = [(path, _NAME.fullmatch(path.name)) for path in paths]
    return sorted((Checkpoint(path, int(found[1])) for path, found in named if found), key=lambda c: c.step)


def publish(folder: Path, step: int, fill: Callable[[Path], None]) -> Path:
    """Has `fill` write a checkpoint's files into a folder, and puts that in place whole."""
    place = folder / name(step)
    half = folder / f".{place.name}.tmp"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    fill(half)
    _seal(half)
    if place.exists():  # cut short, or training came by a second time
        _remove(place)
    half.rename(place)
    files.sync_folder(folder)
    return place


def damage(checkpoint: Path) -> str:
    """What is missing or altered in a checkpoint, in a few words; "" when it is whole."""
    try:
        written = json.loads((checkpoint / COMPLETE).read_text(encoding="utf-8"))
        for file, (size, digest) in written.items():
            path = checkpoint / file
            if path.stat().st_size != size:
                return f"{file} has {path.stat().st_size} of {size} bytes"
            if _digest(path) != digest:
                return f"{file} was altered"
    except FileNotFoundError as error:
        return f"{Path(str(error.filename)).name} is missing"
    except (OSError, ValueError, AttributeError, TypeError) as error:
        return f"{COMPLETE} cannot be read: {error}"
    return ""


def newest(folder: Path, tell: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that is whole and that training can go on from; None where there is none.

    `tell` gets a sentence for each newer one that is not whole.
    """
    found = None
    faults = []
    for checkpoint in reversed(every(folder)):
        fault = damage(checkpoint.folder)
        if fault:
            faults.append(f"The checkpoint {checkpoint.folder} is cut short ({fault})")
        elif (checkpoint.folder / RESUME).exists():  # else it is kept for its model alone
            found = checkpoint
            break
    for fault in faults:
        tell(f"{fault}; {f'going on from {found.folder.name}' if found else 'there is none before it'}.")
    return found


def mark_best(folder: Path, checkpoint: str) -> None:
    """Lets `best` point to a checkpoint by its name, at no moment to nothing."""
    link = folder / BEST
    half = folder / f".{BEST}.tmp"
    half.unlink(missing_ok=True)
    half.symlink_to(checkpoint)
    half.replace(link)
    files.sync_folder(folder)


def prune(folder: Path, step: int, kept: int = KEPT) -> None:
    """Keeps the best checkpoint and the newest `kept` up to `step`, that of the training now; the best, where it is
    older, without what training needs. Those behind it are not whole, or training would have gone on from there."""
    link = folder / BEST
    favourite = link.readlink().name if link.is_symlink() else ""
    for checkpoint in [found for found in every(folder) if found.step <= step][:-kept]:
        if checkpoint.folder.name == favourite:
            _lighten(checkpoint.folder)
        else:
            _remove(checkpoint.folder)
    for half in folder.glob(".step-*"):  # of attempts that were killed
        shutil.rmtree(half)


def _remove(checkpoint: Path) -> None:
    """Renamed first, so that a crash in between leaves no half of it in place."""
    doomed = checkpoint.with_name(f".{checkpoint.name}.old")
    shutil.rmtree(doomed, ignore_errors=True)
    checkpoint.rename(doomed)
    shutil.rmtree(doomed)


def _lighten(checkpoint: Path) -> None:
    if not (checkpoint / RESUME).exists() or damage(checkpoint):
        return
    written = json.loads((checkpoint / COMPLETE).read_text(encoding="utf-8"))
    written.pop(RESUME, None)
    files.write_whole(checkpoint / COMPLETE, json.dumps(written).encode())
    (checkpoint / RESUME).unlink()


def _seal(half: Path) -> None:
    """Brings all files to the disk, then says how long each is and its digest."""
    written = {}
    for path in sorted(half.iterdir()):
        files.sync(path)
        written[path.name] = (path.stat().st_size, _digest(path))
    files.write_whole(half / COMPLETE, json.dumps(written).encode())


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
