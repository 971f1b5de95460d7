"""`speculators train`'s own command line for a recipe: what is trained with it can be repeated by hand."""

from __future__ import annotations

from pathlib import Path

from pipeline.draft.recipe import VALIDATED, Recipe
from pipeline.layers import Layers

LOGGED = 2000
"""Steps whose figures are told, at most, in a training of any length."""


def arguments(
    recipe: Recipe, target: Path, layers: Layers, products: Path, tokens: int, gpu: bool, workers: int
) -> list[str]:
    """`products` is the run's folder of products, `tokens` those of all samples, `workers` the loader's processes."""
    steps = recipe.epochs * tokens // (recipe.pack_tokens * recipe.processes)
    shape = recipe.shape
    return [
        f"--verifier-name-or-path={target}",
        f"--data-path={products / 'training_data'}",
        f"--hidden-states-path={products / 'hidden_states'}",
        f"--d2t-path={products / 'vocabulary' / 'd2t.npy'}",
        f"--t2d-path={products / 'vocabulary' / 't2d.npy'}",
        f"--save-path={products / 'checkpoints'}",
        "--on-missing=raise",
        f"--train-data-ratio={1 - VALIDATED}",
        f"--total-seq-len={recipe.pack_tokens}",
        f"--num-workers={workers}",
        f"--hidden-states-dtype={'bfloat16' if gpu else 'float32'}",
        f"--num-layers={shape.layers}",
        f"--draft-arch={shape.arch}",
        *("--full-attention-indices", *map(str, range(shape.layers))),
        *("--target-layer-ids", *map(str, layers.vllm_ids[:-1])),
        f"--draft-attn-impl={'simple_flex_attention' if gpu else 'sdpa'}",
        _switch("norm-before-residual", shape.norm_before_residual),
        _switch("norm-before-fc", shape.norm_before_fc),
        *(["--fc-norm"] if shape.fc_norm else []),
        _switch("norm-output", shape.norm_output),
        f"--ttt-steps={recipe.ttt_steps}",
        f"--loss-implementation={'fused' if gpu else 'eager'}",
        f"--optimizer={recipe.optimizer}",
        f"--lr={recipe.lr}",
        f"--epochs={recipe.epochs}",
        f"--seed={recipe.seed}",
        f"--log-freq={max(1, steps // LOGGED)}",
        *(["--fsdp-shard"] if recipe.shard else []),
    ]


def _switch(name: str, on: bool) -> str:
    return f"--{'' if on else 'no-'}{name}"
