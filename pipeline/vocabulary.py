"""The draft vocabulary on disk: `d2t.npy`, `t2d.npy` and `vocabulary.json`, bound to the data it was chosen from.

`d2t` int64 [D]: the target's id of draft id i is i + d2t[i]. `t2d` bool [V]: whether the draft model can say an id.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline import files
from pipeline.report import StageError

D2T, T2D, ABOUT = "d2t.npy", "t2d.npy", "vocabulary.json"


@dataclass(frozen=True)
class Vocabulary:
    """What `vocabulary.json` says."""

    data: str
    """`store.data_digest` of the samples that it was chosen from."""
    draft_vocabulary: int
    target_vocabulary: int
    coverage: float
    """Share of the assistant's tokens that the draft model can say; acceptance cannot exceed it at any position."""
    tokens: int
    """The assistant's tokens that were counted."""
    missing: int
    """How many different tokens of the assistant's the draft model cannot say."""
    digest: str
    """sha256 over both mappings."""


def write(folder: Path, d2t: Any, t2d: Any, **about: Any) -> Vocabulary:
    """`d2t` and `t2d` are numpy arrays. The description comes last: without it the folder holds no vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ABOUT).unlink(missing_ok=True)
    mappings = _bytes(d2t), _bytes(t2d)
    for name, data in zip((D2T, T2D), mappings, strict=True):
        files.write_whole(folder / name, data)
    made = Vocabulary(draft_vocabulary=len(d2t), target_vocabulary=len(t2d), digest=_digest(*mappings), **about)
    files.write_whole(folder / ABOUT, json.dumps(asdict(made), indent=1).encode())
    return made


def read(folder: Path) -> Vocabulary | None:
    """The vocabulary of a folder; None unless it is whole."""
    try:
        found = Vocabulary(**json.loads((folder / ABOUT).read_text(encoding="utf-8")))
        whole = _digest((folder / D2T).read_bytes(), (folder / T2D).read_bytes()) == found.digest
    except (OSError, ValueError, TypeError):
        return None
    return found if whole else None


def require(folder: Path, data: str) -> Vocabulary:
    """The vocabulary that was chosen from the data of that digest. Raises StageError when there is none."""
    found = read(folder)
    if found is None:
        raise StageError(f"There is no whole draft vocabulary in {folder}; run the stage vocab first.")
    if found.data != data:
        raise StageError(f"The draft vocabulary in {folder} was chosen from other data; run the stage vocab again.")
    return found


def mappings(folder: Path) -> tuple[Any, Any]:
    """(d2t, t2d) as torch tensors: int64 [D], bool [V]."""
    import numpy
    import torch

    return torch.from_numpy(numpy.load(folder / D2T)), torch.from_numpy(numpy.load(folder / T2D))


def _bytes(array: Any) -> bytes:
    import numpy

    buffer = io.BytesIO()
    numpy.save(buffer, array)
    return buffer.getvalue()


def _digest(*data: bytes) -> str:
    found = hashlib.sha256()
    for part in data:
        found.update(hashlib.sha256(part).digest())
    return found.hexdigest()
