"""speculators' EAGLE-3 draft model: built for a target, saved, and loaded again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline import vocabulary
from pipeline.draft import target_folder
from pipeline.draft.shape import Shape
from pipeline.layers import Layers
from pipeline.vocabulary import Vocabulary

SEED = 0


def attention() -> str:
    """The attention that the draft model runs with here: flex attention needs an accelerator."""
    import torch

    return "simple_flex_attention" if torch.accelerator.is_available() else "eager"


def untrained(
    target: Path, layers: Layers, mappings: Path, shape: Shape, seed: int = SEED, attention_by: str = ""
) -> Any:
    """An Eagle3DraftModel as training begins with it, in float32 on the CPU; the same seed gives the same weights.

    `mappings` is the folder of the draft vocabulary. Embedding, head and the final norm for the training's targets are
    the target model's own. Raises StageError when the target cannot be read, or the vocabulary is no whole one of it.
    """
    import torch
    from speculators.models.eagle3 import Eagle3DraftModel

    size = _vocabulary(mappings, target)
    d2t, t2d = vocabulary.mappings(mappings)
    torch.manual_seed(seed)
    with target_folder.readable(target) as verifier:
        model = Eagle3DraftModel.from_training_args(
            decoder(target, verifier, shape),
            t2d=t2d,
            d2t=d2t,
            verifier_name_or_path=str(verifier),
            draft_vocab_size=size.draft_vocabulary,
            target_layer_ids=list(layers.vllm_ids[:-1]),
            draft_attn_impl=attention_by or attention(),
            norm_before_residual=shape.norm_before_residual,
            norm_before_fc=shape.norm_before_fc,
            fc_norm=shape.fc_norm,
            norm_output=shape.norm_output,
            ttt_steps=shape.speculative_tokens,
        )
    _name_target(model.config, target)
    return model.float()


def decoder(target: Path, verifier: Path, shape: Shape) -> Any:
    """The config of the draft model's decoder layers, by speculators' own rules; full attention throughout.

    A target with latent attention (DeepSeek, Kimi) names as head_dim what its rotary part takes, half of what a head
    is; and its rotary scale has two terms that transformers heeds and vLLM's plain YaRN does not.
    """
    from speculators.train.cli import create_transformer_layer_config

    config = create_transformer_layer_config(
        str(verifier),
        num_layers=shape.layers,
        draft_arch=shape.arch,
        hidden_act="silu",
        sliding_window=2048,
        full_attention_indices=list(range(shape.layers)),
    )
    text = target_folder.text_config(target)
    if "kv_lora_rank" in text:
        config.head_dim = int(text["v_head_dim"])
        for name in ("mscale", "mscale_all_dim"):
            config.rope_parameters.pop(name, None)
    return config


def save(model: Any, folder: Path, state: dict[str, Any] | None = None) -> None:
    """Writes the draft model as an engine serves it: config.json and model.safetensors, weights in bfloat16.

    `state` stands in for the model's own weights. The files are not synced, and not whole before this returns.
    """
    import torch
    from speculators.train.checkpointer import convert_float_dtype, patch_config_dtype
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    weights = convert_float_dtype(model.state_dict() if state is None else state, torch.bfloat16)
    model.save_pretrained(folder, state_dict=weights)
    patch_config_dtype(folder / "config.json", torch.bfloat16)


def load(folder: Path, target: Path, dtype: Any = None) -> Any:
    """The Eagle3DraftModel of a folder, for a target wherever that lies now; float32 unless `dtype` is given.

    The head and the norm that make the training's targets are loaded from the target.
    """
    import torch
    from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig

    config = Eagle3SpeculatorConfig.from_pretrained(folder)
    config.transformer_layer_config._attn_implementation = attention()  # no config on disk says it
    with target_folder.readable(target) as verifier:
        config.speculators_config.verifier.name_or_path = str(verifier)
        model = Eagle3DraftModel.from_pretrained(folder, config=config, dtype=dtype or torch.float32)
    _name_target(model.config, target)
    return model


def _vocabulary(mappings: Path, target: Path) -> Vocabulary:
    from pipeline.report import StageError

    found = vocabulary.read(mappings)
    total = target_folder.vocabulary(target)
    if found is None:
        raise StageError(f"There is no whole draft vocabulary in {mappings}; run the stage vocab first.")
    if found.target_vocabulary != total:
        raise StageError(
            f"The draft vocabulary in {mappings} was chosen for a target of {found.target_vocabulary} tokens, and "
            f"{target} has {total}; run the stage vocab again."
        )
    return found


def _name_target(config: Any, target: Path) -> None:
    verifier = config.speculators_config.verifier
    verifier.name_or_path = str(target)
    verifier.architectures = target_folder.config(target).get("architectures") or []
