"""A Kimi-K2.5-shaped target: a DeepSeek-V3 language model inside a wrapper with an (empty) vision tower.

No transformers class loads Kimi-K2.5; vLLM's own does, given the wrapper's config, its weights' names, and a processor
for pictures. Nothing here ever sees a picture, so the processor does the least that vLLM asks of one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline.targets import deepseek_v3

SHAPE = deepseek_v3.SHAPE
PLACEHOLDER = "<|media_pad|>"
SPECIAL = (PLACEHOLDER,)
PREFIX = "language_model."
"""Of the language model's weights, before the names they have on their own."""
VISION = {
    "model_type": "kimi_k25_vision",
    "patch_size": 14,
    "init_pos_emb_height": 8,
    "init_pos_emb_width": 8,
    "init_pos_emb_time": 4,
    "num_attention_heads": 2,
    "num_hidden_layers": 0,
    "hidden_size": 64,
    "intermediate_size": 128,
    "mm_hidden_size": SHAPE["hidden_size"],
}
CONFIGURATION = """from vllm.transformers_utils.configs.kimi_k25 import KimiK25Config as _Config


class KimiK25Config(_Config):
    pass
"""
PROCESSING = """import torch
from transformers.image_processing_utils import BaseImageProcessor


class KimiK25VisionProcessor(BaseImageProcessor):
    num_frames_per_chunk = 4

    def media_tokens_calculator(self, media):
        return 1

    def split_video_chunks(self, video):
        return [video]

    def preprocess(self, medias, **given):
        count = len(medias)
        return {"pixel_values": torch.zeros(4 * count, 3, 14, 14), "grid_thws": torch.tensor([[1, 2, 2]] * count)}
"""

make = deepseek_v3.make


def save(model: Any, folder: Path, shard: str) -> None:
    inner = folder / "inner"
    model.save_pretrained(inner, max_shard_size=shard)
    _move_shards(inner, folder)
    text = json.loads((inner / "config.json").read_text(encoding="utf-8"))
    (inner / "generation_config.json").rename(folder / "generation_config.json")
    for path in inner.iterdir():
        path.unlink()
    inner.rmdir()
    placeholder = _token_id(folder, PLACEHOLDER)
    config = {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "auto_map": {"AutoConfig": "configuration_kimi_k25.KimiK25Config"},
        "dtype": text.get("dtype", "bfloat16"),
        "text_config": text,
        "vision_config": VISION,
        "media_placeholder_token_id": placeholder,
        **{key: text[key] for key in ("eos_token_id", "pad_token_id")},
    }
    processor = {
        "auto_map": {"AutoImageProcessor": "kimi_k25_vision_processing.KimiK25VisionProcessor"},
        "image_processor_type": "KimiK25VisionProcessor",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=1), encoding="utf-8")
    (folder / "configuration_kimi_k25.py").write_text(CONFIGURATION, encoding="utf-8")
    (folder / "kimi_k25_vision_processing.py").write_text(PROCESSING, encoding="utf-8")


def _move_shards(inner: Path, folder: Path) -> None:
    """Writes the language model's shards again under the wrapper's names, and the vision tower's in one more."""
    import torch
    from safetensors.torch import load_file, save_file

    weight_map = {}
    shards = [(path.name, load_file(path)) for path in sorted(inner.glob("*.safetensors"))]
    named = [(name, {PREFIX + key: tensor for key, tensor in tensors.items()}) for name, tensors in shards]
    vision = {name: tensor.to(torch.bfloat16) for name, tensor in _vision_weights().items()}
    for name, tensors in [*named, ("vision.safetensors", vision)]:
        save_file(tensors, folder / name, metadata={"format": "pt"})
        weight_map.update(dict.fromkeys(tensors, name))
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def _vision_weights() -> dict[str, Any]:
    import torch

    size, patch, merged = 64, 14, 64 * 2 * 2
    height = width = 8
    return {
        "vision_tower.patch_embed.proj.weight": torch.zeros(size, 3, patch, patch),
        "vision_tower.patch_embed.proj.bias": torch.zeros(size),
        "vision_tower.patch_embed.pos_emb.weight": torch.zeros(height, width, size),
        "vision_tower.encoder.final_layernorm.weight": torch.ones(size),
        "vision_tower.encoder.final_layernorm.bias": torch.zeros(size),
        "mm_projector.pre_norm.weight": torch.ones(size),
        "mm_projector.pre_norm.bias": torch.zeros(size),
        "mm_projector.proj.0.weight": torch.zeros(merged, merged),
        "mm_projector.proj.0.bias": torch.zeros(merged),
        "mm_projector.proj.2.weight": torch.zeros(SHAPE["hidden_size"], merged),
        "mm_projector.proj.2.bias": torch.zeros(SHAPE["hidden_size"]),
    }


def _token_id(folder: Path, token: str) -> int:
    data = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    return next(int(added["id"]) for added in data["added_tokens"] if added["content"] == token)
