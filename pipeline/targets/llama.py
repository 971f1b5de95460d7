"""A Llama-type target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

SPECIAL: tuple[str, ...] = ()
"""Special tokens that this target needs besides those of every target."""
SHAPE = {
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 8,  # the fewest for which the default aux layers are distinct and not neighbours of the last
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
}


def make(common: Mapping[str, Any]) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**SHAPE, **common))


def save(model: Any, folder: Path, shard: str) -> None:
    model.save_pretrained(folder, max_shard_size=shard)
