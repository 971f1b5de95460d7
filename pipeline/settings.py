"""Settings of a run, read from JSON and checked value by value."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compat.record import ATTEMPT
from pipeline.checked import bad, choice, integer, table, text
from pipeline.draft_settings import EvaluateSettings, ExportSettings, TrainSettings
from pipeline.engine.backend import AUTO, BACKENDS
from pipeline.extract_settings import ExtractSettings
from pipeline.pairs import BUILDS, CPU, PAIRS

TARGETS = {
    "tiny": "llama",
    "tiny-qwen3": "qwen3",
    "tiny-deepseek-v3": "deepseek_v3",
    "tiny-kimi-k25": "kimi_k25",
    "smollm2": "smollm2",
}
"""Targets that the stage `target` makes → the module of `pipeline.targets` that knows how."""
SMOLLM2 = "smollm2"
"""The one that is a real model: fetched, where the others are trained on the spot."""
TINY = "tiny"
STDLIB = "stdlib"
DTYPES = ("auto", "bfloat16", "float32")
LONG = ("truncate", "drop")
DRAFT_VOCABULARY = 32000
AUX_LAYERS = 3
"""An EAGLE-3 draft model is fed by three aux layers."""


@dataclass(frozen=True)
class EnvironmentSettings:
    """The environment of one pair on the run's host."""

    python: str | None = None
    """The Python of an environment of the operator's own; None lets `provision` make one."""
    torch_index: str | None = None
    """Where the CPU build of torch is looked for beside pip's own indexes: a package index, or a folder of wheels."""
    build: str | None = None
    """One of BUILDS, for `provision` to make; None makes what the host can run."""


@dataclass(frozen=True)
class Settings:
    """What a run does. Layers are in vLLM's convention: id k is the input of layer k, the output of layer k - 1."""

    target: str = TINY
    """A name of TARGETS has that one made; anything else is the folder of a model."""
    conversations: str = STDLIB
    """`stdlib` makes conversations; anything else is a JSON or JSON Lines file."""
    pair: str = "seed"
    tensor_parallel: int = 1
    max_length: int = 2048
    """Tokens of the longest sample."""
    long: str = "truncate"
    """What becomes of a longer conversation: one of LONG."""
    layers: tuple[int, ...] | None = None
    """Aux layers; None follows the default rule (2, n // 2, n - 3)."""
    samples: int = 64
    batch_size: int = 32
    dtype: str = "auto"
    """Of the engine and the stored states: `auto` is the target's own, 32-bit floats taken down to bfloat16."""
    backend: str = AUTO
    """The way to have hidden states, of `pipeline.engine.backend`; `auto` takes what the environment offers."""
    train_steps: int = 120
    """Optimiser steps of the tiny target's training."""
    stage_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Stage → variables that its process gets besides."""
    stage_pair: Mapping[str, str] = field(default_factory=dict)
    """Stage → pair in whose environment it runs, where it is not the run's; use `stages.pair_of`."""
    environments: Mapping[str, EnvironmentSettings] = field(default_factory=dict)
    """Pair → what the operator says of its environment; use `environment`."""
    until: str = ""
    """The last stage to run; "" runs them all."""
    draft_vocabulary: int | None = None
    """Tokens that the draft model can say; None: DRAFT_VOCABULARY, or the target's own where it has fewer."""
    extract: ExtractSettings = field(default_factory=ExtractSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    export: ExportSettings = field(default_factory=ExportSettings)
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)

    @property
    def makes_target(self) -> bool:
        return self.target in TARGETS

    def environment(self, pair: str) -> EnvironmentSettings:
        return self.environments.get(pair, EnvironmentSettings())


def parse(data: Mapping[str, Any]) -> Settings:
    """Settings from the console's JSON. Raises Problem (bad_settings) for the first value that makes no sense."""
    run = table(data, "run")
    layers = run.get("layers", "auto")
    stages = table(data, "stage")
    environments = table(data, "environment")
    return Settings(
        target=text(run, "target", TINY),
        conversations=text(run, "conversations", STDLIB),
        pair=choice(run, "pair", Settings.pair, tuple(PAIRS)),
        tensor_parallel=integer(run, "tensor_parallel", 1, 1, 64),
        max_length=integer(run, "max_length", 2048, 8, 1 << 20),
        long=choice(table(stages, "prepare"), "long", Settings.long, LONG, "stage.prepare"),
        layers=None if layers == "auto" else _layers(layers),
        samples=integer(run, "samples", 64, 1, 100_000_000),
        batch_size=integer(run, "batch_size", 32, 1, 4096),
        dtype=choice(run, "dtype", Settings.dtype, DTYPES),
        backend=choice(table(stages, "extract"), "backend", AUTO, BACKENDS, "stage.extract"),
        train_steps=integer(table(stages, "target"), "steps", Settings.train_steps, 1, 1_000_000, "stage.target"),
        stage_env={name: _environment_variables(name, table(stages, name)) for name in stages},
        stage_pair={
            name: choice(table(stages, name), "pair", "", tuple(PAIRS), f"stage.{name}")
            for name in stages
            if table(stages, name).get("pair") is not None
        },
        environments={pair: _environment(pair, table(environments, pair)) for pair in environments},
        until=text(run, "until", Settings.until) if run.get("until") else Settings.until,
        draft_vocabulary=_draft_vocabulary(run),
        extract=ExtractSettings.parse(table(stages, "extract")),
        train=TrainSettings.parse(table(stages, "train")),
        export=ExportSettings.parse(table(stages, "export")),
        evaluate=EvaluateSettings.parse(table(stages, "evaluate")),
    )


def of_attempt() -> Settings:
    """Settings of the attempt this process runs in (EYAS_ATTEMPT/spec.json)."""
    spec = json.loads((Path(os.environ[ATTEMPT]) / "spec.json").read_text(encoding="utf-8"))
    return parse(spec.get("settings") or {})


def _layers(value: Any) -> tuple[int, ...]:
    ids = tuple(value) if isinstance(value, list) else ()
    whole = all(isinstance(i, int) and not isinstance(i, bool) and i >= 1 for i in ids)
    if len(ids) != AUX_LAYERS or not whole or list(ids) != sorted(set(ids)):
        raise bad(
            f"run.layers is {value!r}",
            f'Give "auto" or {AUX_LAYERS} rising layer ids of 1 or more in vLLM\'s convention, such as [2, 30, 58].',
        )
    return ids


def _draft_vocabulary(run: Mapping[str, Any]) -> int | None:
    if run.get("draft_vocabulary") is None:
        return None
    return integer(run, "draft_vocabulary", DRAFT_VOCABULARY, 2, 1 << 24)


def _environment_variables(stage: str, section: Mapping[str, Any]) -> dict[str, str]:
    env = table(section, "env")
    for name, value in env.items():
        if not isinstance(value, str) or "\0" in value or "=" in name or not name:
            raise bad(f"stage.{stage}.env.{name} is {value!r}, which is no text", f'Write {name} = "value".')
    return dict(env)


def _environment(pair: str, section: Mapping[str, Any]) -> EnvironmentSettings:
    build = section.get("build")
    return EnvironmentSettings(
        _python(pair, section),
        _torch_index(pair, section),
        None if build is None else choice(section, "build", CPU, BUILDS, f"environment.{pair}"),
    )


def _python(pair: str, section: Mapping[str, Any]) -> str | None:
    value = section.get("python")
    if value is None:
        return None
    if not isinstance(value, str) or not Path(value).expanduser().is_absolute():
        raise bad(
            f"environment.{pair}.python is {value!r}", "Give the full path of a Python, such as /opt/env/bin/python."
        )
    return str(Path(value).expanduser())


def _torch_index(pair: str, section: Mapping[str, Any]) -> str | None:
    value = section.get("torch_index")
    if value is None:
        return None
    if isinstance(value, str) and ("://" in value or Path(value).expanduser().is_absolute()):
        return value if "://" in value else str(Path(value).expanduser())
    raise bad(
        f"environment.{pair}.torch_index is {value!r}",
        "Give the address of a package index (https://...) or the full path of a folder of wheels.",
    )
