"""The dataset between prepare and extract: `dataset.jsonl`, one sample a line.

    {"index": 0, "place": "chat.jsonl:7", "token_ids": [3, 17, …], "loss_mask": [0, 0, 1, …]}

`token_ids` and `loss_mask` are equally long; the mask is 1 on the tokens that the assistant says, its end-of-turn
token included. `place` is the conversation's. `dataset.json` beside it names where all came from, and the `marks`
(`pipeline.masking.Marks`) by which the masks were found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline import files
from pipeline.report import StageError

SAMPLES = "dataset.jsonl"
ABOUT = "dataset.json"


@dataclass(frozen=True)
class Sample:
    """One tokenised conversation."""

    index: int
    token_ids: tuple[int, ...]
    loss_mask: tuple[int, ...]
    place: str = ""

    @cached_property
    def digest(self) -> str:
        """sha256 over the token ids, by which a sample of hidden states knows its tokens."""
        return hashlib.sha256(json.dumps(self.token_ids).encode()).hexdigest()


def write(folder: Path, samples: Iterable[Sample], about: Mapping[str, Any]) -> None:
    """Writes the samples as they come. `about` is read after the last one, so their maker may still fill it."""
    folder.mkdir(parents=True, exist_ok=True)
    with files.whole(folder / SAMPLES) as file:
        for s in samples:
            row = {"index": s.index, "place": s.place, "token_ids": s.token_ids, "loss_mask": s.loss_mask}
            file.write(json.dumps(row).encode() + b"\n")
    files.write_whole(folder / ABOUT, json.dumps(about, indent=1).encode())


def read(folder: Path) -> list[Sample]:
    """All samples. Raises StageError when there is no dataset or a line is broken."""
    return list(iterate(folder))


def iterate(folder: Path) -> Iterator[Sample]:
    """The samples one at a time. Raises StageError as `read` does."""
    path = folder / SAMPLES
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                number += 1
                row = json.loads(line)
                place = row.get("place", "")
                sample = Sample(row["index"], tuple(row["token_ids"]), tuple(row["loss_mask"]), place)
                if not sample.token_ids or len(sample.token_ids) != len(sample.loss_mask):
                    raise ValueError("token_ids and loss_mask differ in length or are empty")
                yield sample
    except FileNotFoundError:
        raise StageError(f"There is no dataset {path}; run the stage prepare first.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StageError(f"{path}:{number} is no sample ({error}); run the stage prepare again.") from error
    if not number:
        raise StageError(f"The dataset {path} is empty; run the stage prepare again.")
