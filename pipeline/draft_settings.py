"""Settings of the stages that make and measure the draft model, checked value by value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.checked import bad, choice, flag, integer, number, table, text

SPECULATIVE_TOKENS = 3
"""Tokens that a draft model proposes in a round, where nothing else is asked for."""
NORMS = ("norm_before_fc", "fc_norm", "norm_output")
"""Norms of EAGLE-3.1 that a draft model may have."""
LAYERS = ("llama", "qwen3")
SPEED = ("auto", "always", "never")
OPTIMIZERS = ("muon", "adamw")
BUILT_IN = ("held-out", "trained", "everyday")
"""Sets of prompts that every evaluation has; see `pipeline.draft.prompts`."""


@dataclass(frozen=True)
class TrainSettings:
    """[stage.train]"""

    epochs: int | None = None
    """Times that every sample is seen, at most; None: see `pipeline.draft.recipe`."""
    lr: float | None = None
    """The highest learning rate; None: see `pipeline.draft.recipe`."""
    optimizer: str = "muon"
    """Of OPTIMIZERS. Muon takes the weight matrices alone and leaves the rest to AdamW."""
    patience: int = 3
    """Epochs without a better acceptance after which training ends; 0: it never ends early."""
    checkpoint_steps: int = 500
    """Optimiser steps between two checkpoints inside an epoch; there is one at the end of each besides."""
    pack_tokens: int | None = None
    """Tokens of one process's batch, several samples packed; None: see `pipeline.draft.recipe`."""
    gpus: int | None = None
    """GPUs of this host to train on (on the CPU: processes); None: all of them."""
    shard: bool = False
    """Whether the GPUs share the draft model's weights between them (FSDP) in place of a copy each."""
    nodes: int = 1
    """Hosts that train together; each runs this stage, with its own node_rank and the same products folder."""
    node_rank: int = 0
    rendezvous: str = ""
    """HOST:PORT of the first of several hosts."""
    ttt_steps: int = SPECULATIVE_TOKENS
    """Steps of training-time test: how far the draft learns to follow its own states."""
    norms: tuple[str, ...] | None = None
    """Norms of EAGLE-3.1, of NORMS; None takes what the serving engine applies."""
    layer: str = "llama"
    """Type of the draft model's decoder layer, of LAYERS."""

    @classmethod
    def parse(cls, section: Mapping[str, Any]) -> TrainSettings:
        place = "stage.train"
        return cls(
            epochs=_optional(section, "epochs", 3, 1, 10_000, place),
            lr=None if section.get("lr") is None else number(section, "lr", 1e-3, 1e-8, 1.0, place),
            optimizer=choice(section, "optimizer", cls.optimizer, OPTIMIZERS, place),
            patience=integer(section, "patience", cls.patience, 0, 10_000, place),
            checkpoint_steps=integer(section, "checkpoint_steps", cls.checkpoint_steps, 1, 1_000_000, place),
            pack_tokens=_optional(section, "pack_tokens", 8192, 8, 1 << 20, place),
            gpus=_optional(section, "gpus", 1, 1, 64, place),
            shard=flag(section, "shard", cls.shard, place),
            **_hosts(section, place),
            ttt_steps=integer(section, "ttt_steps", cls.ttt_steps, 1, 16, place),
            norms=_norms(section.get("norms", "auto")),
            layer=choice(section, "layer", cls.layer, LAYERS, place),
        )


@dataclass(frozen=True)
class ExportSettings:
    """[stage.export]"""

    engine: str = ""
    """The vLLM that will serve the draft model, "0.32"; "" is the current pair's."""

    @classmethod
    def parse(cls, section: Mapping[str, Any]) -> ExportSettings:
        return cls(engine=text(section, "engine", "0.32", "stage.export") if section.get("engine") else "")


@dataclass(frozen=True)
class EvaluateSettings:
    """[stage.evaluate]"""

    prompts: Mapping[str, str] = field(default_factory=dict)
    """Name → file of conversations on the host: sets of prompts beside the built-in ones."""
    set_size: int = 8
    """Prompts of a set."""
    max_tokens: int = 40
    """Tokens said after a prompt, at most."""
    min_acceptance: float = 0.0
    """The stage fails when the served acceptance length of the held-out prompts is below it; 0 asks for nothing."""
    simulate: bool = True
    """Whether speculative decoding is also done in this process, which needs room for a second copy of the target."""
    speed: str = "auto"
    """Whether the target alone is served as well, to tell the speed-up: one of SPEED; `auto` does so on a GPU."""

    @classmethod
    def parse(cls, section: Mapping[str, Any]) -> EvaluateSettings:
        place = "stage.evaluate"
        prompts = table(section, "prompts")
        for name, path in prompts.items():
            if name in BUILT_IN:
                raise bad(
                    f"{place}.prompts.{name} is the name of a built-in set of prompts", "Give yours another name."
                )
            if not isinstance(path, str) or not path.startswith("/"):
                raise bad(f"{place}.prompts.{name} is {path!r}", "Give the full path of a file on the host.")
        return cls(
            prompts=dict(prompts),
            set_size=integer(section, "set_size", cls.set_size, 1, 10_000, place),
            max_tokens=integer(section, "max_tokens", cls.max_tokens, 2, 100_000, place),
            min_acceptance=number(section, "min_acceptance", cls.min_acceptance, 0.0, 64.0, place),
            simulate=flag(section, "simulate", cls.simulate, place),
            speed=choice(section, "speed", cls.speed, SPEED, place),
        )


def _norms(value: Any) -> tuple[str, ...] | None:
    if value == "auto":
        return None
    if not isinstance(value, list) or any(name not in NORMS for name in value) or len(set(value)) != len(value):
        raise bad(f"stage.train.norms is {value!r}", f'Give "auto" or a list of: {", ".join(NORMS)}; [] for none.')
    return tuple(value)


def _optional(section: Mapping[str, Any], key: str, such_as: int, low: int, high: int, place: str) -> int | None:
    return None if section.get(key) is None else integer(section, key, such_as, low, high, place)


def _hosts(section: Mapping[str, Any], place: str) -> dict[str, Any]:
    nodes = integer(section, "nodes", 1, 1, 1024, place)
    rendezvous = text(section, "rendezvous", "host:29500", place) if section.get("rendezvous") else ""
    if nodes > 1 and not rendezvous.rpartition(":")[0]:
        raise bad(
            f"{place}.nodes is {nodes}, and {place}.rendezvous is {rendezvous!r}, which names no HOST:PORT to meet at",
            "Name the first host and a free port of it, the same on every host.",
        )
    return {
        "nodes": nodes,
        "node_rank": integer(section, "node_rank", 0, 0, nodes - 1, place),
        "rendezvous": rendezvous,
    }
