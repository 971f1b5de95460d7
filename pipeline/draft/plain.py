"""A draft model's folder in plain form: for engines that are given target and draft model apart.

`vllm serve TARGET --speculative-config '{"method": "eagle3", "model": FOLDER, …}'`. The tensors are the same; of the
config, the decoder's fields stand at the top, beside what a draft model has of its own.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline import files

ARCHITECTURES = {"llama": "LlamaForCausalLMEagle3", "qwen3": "Eagle3Qwen3ForCausalLM"}
"""Type of the decoder layer → the name that the engine knows the draft model by."""
OWN = (
    "draft_vocab_size",
    "eagle_aux_hidden_state_layer_ids",
    "norm_before_residual",
    "norm_before_fc",
    "fc_norm",
    "norm_output",
)
"""Fields of the draft model's own. All are written out: the engine's defaults are others than speculators'."""


def config(speculators: Mapping[str, Any]) -> dict[str, Any]:
    """The plain config of a draft model, from its config in speculators' form."""
    decoder = dict(speculators["transformer_layer_config"])
    own = {name: speculators.get(name) for name in OWN}
    own |= {name: bool(own[name]) for name in OWN if "norm" in name}
    if speculators.get("target_hidden_size"):
        own["target_hidden_size"] = speculators["target_hidden_size"]
    return {
        **decoder,
        "architectures": [ARCHITECTURES[decoder["model_type"]]],
        "dtype": speculators.get("dtype") or "bfloat16",
        "tie_word_embeddings": False,
        **own,
    }


def with_old_rope(decoder: Mapping[str, Any]) -> dict[str, Any]:
    """The decoder's config with its rotation named as transformers 4 does, besides."""
    rope = dict(decoder.get("rope_parameters") or {})
    old: dict[str, Any] = {"rope_scaling": None}
    if "rope_theta" in rope:
        old["rope_theta"] = rope.pop("rope_theta")
    if rope.get("rope_type", "default") != "default":
        old["rope_scaling"] = rope
    return {**decoder, **old}


def write(folder: Path, place: Path) -> None:
    """Writes the plain form of the draft model in `folder` into the new folder `place`, on the same file system.

    The weights are a second name of the same files where that can be, and take no room then.
    """
    place.mkdir()
    found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    files.write_whole(place / "config.json", json.dumps(config(found), indent=2).encode())
    for path in sorted(folder.glob("*.safetensors")):
        try:
            os.link(path, place / path.name)
        except OSError:
            shutil.copyfile(path, place / path.name)
