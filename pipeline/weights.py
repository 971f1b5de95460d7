"""Single tensors out of a target's safetensors shards, found by the end of their name, read no more than is needed.

Wrappers put a prefix before their language model's names (`language_model.model.norm.weight`), tied targets have no
head of their own: both are met here, so that nobody else has to know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.report import StageError

EMBEDDING = ("embed_tokens.weight", "word_embeddings.weight", "wte.weight")
HEAD = ("lm_head.weight",)
FINAL_NORM = ("model.norm.weight", "language_model.norm.weight", "norm.weight")
"""Endings of the names, the first that fits counts."""
OTHER_MODELS = ("vision", "visual", "audio", "projector", "draft", "mtp")
"""In the names of weights that are not the language model's."""
BLOCK = 64 << 20
"""Bytes of a head that are held at once."""


class Weights:
    """The tensors of a model folder by name. Only the headers of the shards are read here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[str, Path] = {}
        for shard in sorted(folder.glob("*.safetensors")):
            with shard.open("rb") as file:
                header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            self._places |= {name: shard for name in header if name != "__metadata__"}

    def name(self, endings: Sequence[str]) -> str | None:
        """The full name of the language model's tensor with one of these endings; None where there is none.

        Raises StageError where several have it and none is nearer to the root than the others.
        """
        for ending in endings:
            found = [name for name in self._places if name == ending or name.endswith(f".{ending}")]
            found = [name for name in found if ".layers." not in name and not _is_other(name)]
            nearest = [name for name in found if name.count(".") == min(n.count(".") for n in found)]
            if len(nearest) > 1:
                raise StageError(
                    f"{self.folder} has {len(nearest)} tensors that end in {ending} ({', '.join(sorted(nearest))}), "
                    "and which of them the language model uses cannot be told from their names."
                )
            if nearest:
                return nearest[0]
        return None

    def tensor(self, endings: Sequence[str]) -> Any:
        """Raises StageError where there is no such tensor."""
        name = self._require(endings)
        with self._open(name) as shard:
            return shard.get_tensor(name)

    def head(self, config: Mapping[str, Any]) -> Head:
        """The target's head, its embedding where the two are tied. `config` is the text model's.

        Raises StageError where neither is there.
        """
        own = self.name(HEAD)
        if own is None and config.get("tie_word_embeddings") is False:  # unsaid, it is the model's class that says it
            self._require(HEAD)
        return Head(self, own or self._require(EMBEDDING))

    def _require(self, endings: Sequence[str]) -> str:
        name = self.name(endings)
        if name is None:
            raise StageError(
                f"No safetensors file in {self.folder} has a tensor whose name ends in {' or '.join(endings)}; is it "
                "the whole model?"
            )
        return name

    def _open(self, name: str) -> Any:
        from safetensors import safe_open

        return safe_open(self._places[name], framework="pt")


class Head:
    """`head(states)`: states [S, H] → logits [S, V] in 32-bit floats, the matrix read block by block."""

    def __init__(self, weights: Weights, name: str) -> None:
        self.name = name
        self._weights = weights

    def __call__(self, states: Any) -> Any:
        import torch

        wide = states.float()
        with self._weights._open(self.name) as shard:
            matrix = shard.get_slice(self.name)
            total, size = matrix.get_shape()
            step = max(1, BLOCK // (4 * size))
            blocks = [wide @ matrix[start : start + step].float().T for start in range(0, total, step)]
        return torch.cat(blocks, dim=1)


def _is_other(name: str) -> bool:
    return any(part in name for part in OTHER_MODELS)
