"""What makes a target model the same model: its config and its weights; and a tokenizer the same tokenizer."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

WHOLE_BELOW = 1 << 30
"""Bytes of weights up to which they are read whole; above, names, sizes, headers and PROBES must do."""
PROBES, PROBE = 64, 4096
"""Places of a shard that are read, and bytes of each: two trainings of one architecture differ in nothing else."""

VOCABULARIES = (".model", ".tiktoken", "vocab.json", "vocab.txt", "merges.txt", "added_tokens.json")
"""Ends of the names of a slow tokenizer's tokens; Kimi's are `tiktoken.model`."""


def digest(folder: Path) -> str:
    """sha256 over config.json and the safetensors shards of a model folder."""
    found = hashlib.sha256((folder / "config.json").read_bytes())
    shards = sorted(folder.glob("*.safetensors"))
    whole = sum(shard.stat().st_size for shard in shards) < WHOLE_BELOW
    for shard in shards:
        size = shard.stat().st_size
        found.update(f"{shard.name}\0{size}\n".encode())
        with shard.open("rb") as file:
            head = file.read(8)
            found.update(head)
            if whole:
                found.update(file.read())
                continue
            header = file.read(int.from_bytes(head, "little"))
            found.update(header)
            for place in _probes(header):
                file.seek(8 + len(header) + place)
                found.update(file.read(PROBE))
    return found.hexdigest()


def _probes(header: bytes) -> list[int]:
    """Where tensors begin, in a shard's data: of all, or of PROBES that are spread over it."""
    about = json.loads(header)
    starts = sorted({int(entry["data_offsets"][0]) for name, entry in about.items() if name != "__metadata__"})
    return starts if len(starts) <= PROBES else [starts[k * len(starts) // PROBES] for k in range(PROBES)]


def tokenizer_digest(folder: Path) -> str:
    """sha256 over the files of a model folder's tokenizer, its chat template included."""
    found = hashlib.sha256()
    names = [path.name for path in folder.iterdir() if path.is_file()]
    kept = [name for name in names if name.startswith(("token", "chat_template"))]
    if "tokenizer.json" not in kept:  # which has them inside
        kept += [name for name in names if name.endswith(VOCABULARIES) and name not in kept]
    for name in sorted(kept):
        found.update(f"{name}\0".encode() + (folder / name).read_bytes())
    return found.hexdigest()
