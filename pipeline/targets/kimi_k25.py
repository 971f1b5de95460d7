"""A Kimi-K2.5-shaped target: a DeepSeek-V3 language model inside a wrapper with an (empty) vision tower.

No transformers class loads Kimi-K2.5; vLLM's own does, given the wrapper's config, its weights' names, and a processor
for pictures. Nothing here ever sees a picture, so the processor does the least that vLLM asks of one.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipeline.targets import deepseek_v3

SHAPE = deepseek_v3.SHAPE
PLACEHOLDER = "<|media_pad|>"
SPECIAL = (PLACEHOLDER,)
PREFIX = "language_model."
"""Of the language model's weights, before the names they have on their own."""
PATCH, POSITIONS, SIZE = 14, 8, 64
VISION = {
    "model_type": "kimi_k25_vision",
    "patch_size": PATCH,
    "init_pos_emb_height": POSITIONS,
    "init_pos_emb_width": POSITIONS,
    "init_pos_emb_time": 4,
    "num_attention_heads": 2,
    "num_hidden_layers": 0,
    "hidden_size": SIZE,
    "intermediate_size": 128,
    "mm_hidden_size": SHAPE["hidden_size"],
    "pos_emb_height": POSITIONS,
    "pos_emb_width": POSITIONS,
    "pos_emb_time": 4,
}
CONFIGURATION = """from transformers import AutoConfig
from transformers.configuration_utils import PretrainedConfig


class KimiK25Config(PretrainedConfig):
    model_type = "kimi_k25"

    def __init__(self, text_config=None, vision_config=None, **given):
        text = dict(text_config or {"model_type": "deepseek_v3"})
        self.text_config = AutoConfig.for_model(text.pop("model_type"), **text)
        self.vision_config = PretrainedConfig(**(vision_config or {}))
        super().__init__(**given)
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
PICTURES = {
    "patch_size": PATCH,
    "merge_kernel_size": 2,
    "temporal_merge_kernel_size": 4,
    "in_patch_limit": 16,
    "in_patch_limit_each_frame": 16,
    "in_patch_limit_video": None,
    "patch_limit_on_one_side": 64,
    "fixed_output_tokens": None,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
"""How a later vLLM's own processor cuts pictures: it takes these names where 0.16 asks for the folder's code."""

make = deepseek_v3.make


def save(model: Any, folder: Path, shard: str) -> None:
    with TemporaryDirectory(dir=folder) as inside:
        model.save_pretrained(inside, max_shard_size=shard)
        _save_weights(Path(inside), folder)
        text = json.loads(Path(inside, "config.json").read_text(encoding="utf-8"))
        Path(inside, "generation_config.json").rename(folder / "generation_config.json")
    pad = _token_id(folder, PLACEHOLDER)
    config = {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "model_type": "kimi_k25",
        "auto_map": {"AutoConfig": "configuration_kimi_k25.KimiK25Config"},
        "dtype": text["dtype"],
        "text_config": text,
        "vision_config": VISION,
        "projection_hidden_size": SIZE,
        "media_placeholder_token_id": pad,
        "image_token_id": pad,
        "tie_word_embeddings": False,  # transformers 5 ties the wrapper's head unless told so
        "eos_token_id": text["eos_token_id"],
        "pad_token_id": text["pad_token_id"],
    }
    processor = {
        "auto_map": {"AutoImageProcessor": "kimi_k25_vision_processing.KimiK25VisionProcessor"},
        "image_processor_type": "KimiK25VisionProcessor",
        "media_proc_cfg": PICTURES,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=1), encoding="utf-8")
    (folder / "configuration_kimi_k25.py").write_text(CONFIGURATION, encoding="utf-8")
    (folder / "kimi_k25_vision_processing.py").write_text(PROCESSING, encoding="utf-8")


def _save_weights(inside: Path, folder: Path) -> None:
    """The language model's shards under the wrapper's names, and the vision tower's weights in one more."""
    from safetensors.torch import load_file, save_file

    shards = {
        path.name: {PREFIX + name: tensor for name, tensor in load_file(path).items()}
        for path in sorted(inside.glob("*.safetensors"))
    }
    shards["vision.safetensors"] = _vision_weights()
    for file, tensors in shards.items():
        save_file(tensors, folder / file, metadata={"format": "pt"})
    places = {name: file for file, tensors in shards.items() for name in tensors}
    index = json.dumps({"metadata": {}, "weight_map": places})
    (folder / "model.safetensors.index.json").write_text(index, encoding="utf-8")


def _vision_weights() -> dict[str, Any]:
    """Of a tower without a layer, and of the projector behind it: name → tensor, all zero but the norms."""
    import torch

    merged = SIZE * 2 * 2  # four patches become one token
    shapes = {
        "vision_tower.patch_embed.proj.weight": (SIZE, 3, PATCH, PATCH),
        "vision_tower.patch_embed.proj.bias": (SIZE,),
        "vision_tower.patch_embed.pos_emb.weight": (POSITIONS, POSITIONS, SIZE),
        "vision_tower.encoder.final_layernorm.weight": (SIZE,),
        "vision_tower.encoder.final_layernorm.bias": (SIZE,),
        "mm_projector.pre_norm.weight": (SIZE,),
        "mm_projector.pre_norm.bias": (SIZE,),
        "mm_projector.proj.0.weight": (merged, merged),
        "mm_projector.proj.0.bias": (merged,),
        "mm_projector.proj.2.weight": (SHAPE["hidden_size"], merged),
        "mm_projector.proj.2.bias": (SHAPE["hidden_size"],),
    }
    fill = {name: 1.0 if name.endswith("norm.weight") else 0.0 for name in shapes}
    return {name: torch.full(shape, fill[name], dtype=torch.bfloat16) for name, shape in shapes.items()}


def _token_id(folder: Path, token: str) -> int:
    data = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    return next(int(added["id"]) for added in data["added_tokens"] if added["content"] == token)
