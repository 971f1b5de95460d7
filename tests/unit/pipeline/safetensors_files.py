"""Writes safetensors files and model folders by hand: the format is eight bytes, a JSON header and the data."""

from __future__ import annotations

import json
from pathlib import Path


def safetensors(size: int = 64, name: str = "w") -> bytes:
    header = json.dumps({name: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


def write_model(folder: Path, layers: int = 8, heads: int = 4, shards: int = 3) -> Path:
    folder.mkdir()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "max_position_embeddings": 8192,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    names = [f"model-{i:05}-of-{shards:05}.safetensors" for i in range(1, shards + 1)]
    tensors = ["model.embed_tokens.weight", "lm_head.weight", *(f"w{i}" for i in range(shards))][:shards]
    for name, tensor in zip(names, tensors, strict=True):
        (folder / name).write_bytes(safetensors(name=tensor))
    index = {"weight_map": dict(zip(tensors, names, strict=True))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
