"""What makes a target model the same model: its config and its weights; and a tokenizer the same tokenizer."""

from __future__ import annotations

import hashlib
from pathlib import Path

WHOLE_BELOW = 1 << 30
"""Bytes of weights up to which they are read whole; above, names, sizes and headers must do."""


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
            found.update(file.read(size if whole else int.from_bytes(head, "little")))
    return found.hexdigest()


def tokenizer_digest(folder: Path) -> str:
    """sha256 over the files of a model folder's tokenizer, its chat template included."""
    found = hashlib.sha256()
    for name in sorted(path.name for path in folder.iterdir() if path.name.startswith(("token", "chat_template"))):
        found.update(f"{name}\0".encode() + (folder / name).read_bytes())
    return found.hexdigest()
