"""The samples in the form that `speculators train --data-path` reads; their hidden states stay where they are.

A folder of Hugging Face `datasets` with a row a sample, in the order of the samples: `input_ids` and `loss_mask`,
int64 [S], and `seq_len`. Row i is trained on `hs_{i}.safetensors`. A marker beside it names the data.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from pipeline import files
from pipeline.dataset import Sample
from pipeline.report import StageError

MARKER = "eyas-data.json"


def is_of(folder: Path, data: str) -> bool:
    """Whether the folder holds, whole, the samples of the data of that digest."""
    try:
        found = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        whole = all((folder / name).stat().st_size == size for name, size in found.get("sizes", {}).items())
        return bool(whole and found["data"] == data and found["tokens"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def tokens(folder: Path) -> int:
    """Of all samples together. Raises StageError when the folder is not whole."""
    try:
        return int(json.loads((folder / MARKER).read_text(encoding="utf-8"))["tokens"])
    except (OSError, ValueError, KeyError, TypeError):
        raise StageError(
            f"There are no whole samples for the trainer in {folder}; run the stage vocab again."
        ) from None


def write(samples: Iterable[Sample], folder: Path, data: str) -> None:
    """Writes the folder whole, in the place of one of other data. Raises StageError when a sample's index is amiss."""
    from datasets import Dataset, Features, Value
    from datasets.arrow_writer import ArrowWriter
    from datasets.utils.logging import disable_progress_bar

    disable_progress_bar()
    half = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(half, ignore_errors=True)  # of an attempt that was killed
    half.mkdir(parents=True)
    rows = half / "rows.arrow"
    features = Features({"input_ids": [Value("int64")], "loss_mask": [Value("int64")], "seq_len": Value("int64")})
    total = 0
    with ArrowWriter(features=features, path=str(rows)) as writer:
        for number, sample in enumerate(samples):
            if sample.index != number:
                raise StageError(
                    f"Row {number} of the dataset is sample {sample.index}, and the trainer would read another "
                    "sample's hidden states; run the stage prepare again."
                )
            total += len(sample.token_ids)
            writer.write(
                {
                    "input_ids": list(sample.token_ids),
                    "loss_mask": list(sample.loss_mask),
                    "seq_len": len(sample.token_ids),
                }
            )
        writer.finalize()
    made = half / "made"
    Dataset.from_file(str(rows)).with_format("torch").save_to_disk(made)
    sizes = {}
    for path in made.iterdir():
        files.sync(path)
        sizes[path.name] = path.stat().st_size
    files.write_whole(made / MARKER, json.dumps({"data": data, "tokens": total, "sizes": sizes}).encode())
    shutil.rmtree(folder, ignore_errors=True)
    made.rename(folder)
    files.sync_folder(folder.parent)
    shutil.rmtree(half)
