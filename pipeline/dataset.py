"""The dataset between prepare and extract: `dataset.jsonl`, one sample a line.

    {"index": 0, "token_ids": [3, 17, …], "loss_mask": [0, 0, 1, …]}

`token_ids` and `loss_mask` are equally long; the mask is 1 on the tokens that the assistant says, its end-of-turn
token included. `dataset.json` beside it names where it came from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.files import write_whole
from pipeline.report import StageError

SAMPLES = "dataset.jsonl"
ABOUT = "dataset.json"


@dataclass(frozen=True)
class Sample:
    """One tokenised conversation."""

    index: int
    token_ids: tuple[int, ...]
    loss_mask: tuple[int, ...]

    @property
    def digest(self) -> str:
        """sha256 over the token ids, by which a sample of hidden states knows its tokens."""
        return hashlib.sha256(json.dumps(self.token_ids).encode()).hexdigest()


def write(folder: Path, samples: Iterable[Sample], about: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = ({"index": s.index, "token_ids": s.token_ids, "loss_mask": s.loss_mask} for s in samples)
    write_whole(folder / SAMPLES, "".join(json.dumps(row) + "\n" for row in rows).encode())
    write_whole(folder / ABOUT, json.dumps(about, indent=1).encode())


def read(folder: Path) -> list[Sample]:
    """All samples. Raises StageError when there is no dataset or a line is broken."""
    path = folder / SAMPLES
    samples: list[Sample] = []
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                sample = Sample(row["index"], tuple(row["token_ids"]), tuple(row["loss_mask"]))
                if not sample.token_ids or len(sample.token_ids) != len(sample.loss_mask):
                    raise ValueError("token_ids and loss_mask differ in length or are empty")
                samples.append(sample)
    except FileNotFoundError:
        raise StageError(f"There is no dataset {path}; run the stage prepare first.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise StageError(f"{path}:{len(samples) + 1} is no sample ({error}); run the stage prepare again.") from error
    if not samples:
        raise StageError(f"The dataset {path} is empty; run the stage prepare again.")
    return samples
