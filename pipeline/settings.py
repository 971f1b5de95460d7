"""Settings of a run, read from JSON and checked value by value."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compat.record import ATTEMPT
from pipeline.engine.backend import AUTO, BACKENDS
from pipeline.pairs import PAIRS
from pipeline.problem import Problem

TARGETS = {
    "tiny": "llama",
    "tiny-qwen3": "qwen3",
    "tiny-deepseek-v3": "deepseek_v3",
    "tiny-kimi-k25": "kimi_k25",
}
"""Targets that the stage `target` makes → the module of `pipeline.targets` that knows how."""
TINY = "tiny"
STDLIB = "stdlib"
DTYPES = ("auto", "bfloat16", "float32")
LONG = ("truncate", "drop")
AUX_LAYERS = 3
"""An EAGLE-3 draft model is fed by three aux layers."""


@dataclass(frozen=True)
class Settings:
    """What a run does. Layers are in vLLM's convention: id k is the input of layer k, the output of layer k - 1."""

    target: str = TINY
    """A name of TARGETS has a tiny target made; anything else is the folder of one."""
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
    batch_size: int = 8
    dtype: str = "auto"
    """Of the engine and the stored states: `auto` is the target's own, 32-bit floats taken down to bfloat16."""
    backend: str = AUTO
    """The way to have hidden states, of `pipeline.engine.backend`; `auto` takes what the environment offers."""
    train_steps: int = 120
    """Optimiser steps of the tiny target's training."""
    stage_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Stage → variables that its process gets besides."""
    python: str | None = None
    """The Python of an environment of the operator's own; None lets `provision` make one."""
    torch_index: str | None = None
    """Where the CPU build of torch is looked for beside pip's own indexes: a package index, or a folder of wheels."""

    @property
    def makes_target(self) -> bool:
        return self.target in TARGETS


def parse(data: Mapping[str, Any]) -> Settings:
    """Settings from the console's JSON. Raises Problem (bad_settings) for the first value that makes no sense."""
    run = _table(data, "run")
    layers = run.get("layers", "auto")
    pair = _text(run, "pair", "seed")
    if pair not in PAIRS:
        raise _bad(f"run.pair is {pair!r}, and there is no such pair of versions", f"Use one of: {', '.join(PAIRS)}.")
    dtype = _text(run, "dtype", "auto")
    if dtype not in DTYPES:
        raise _bad(f"run.dtype is {dtype!r}", f"Use one of: {', '.join(DTYPES)}.")
    stages = _table(data, "stage")
    long = _table(stages, "prepare").get("long", Settings.long)
    if long not in LONG:
        raise _bad(f"stage.prepare.long is {long!r}", f"Use one of: {', '.join(LONG)}.")
    environments = _table(data, "environment")
    return Settings(
        target=_text(run, "target", TINY),
        conversations=_text(run, "conversations", STDLIB),
        pair=pair,
        tensor_parallel=_integer(run, "tensor_parallel", 1, 1, 64),
        max_length=_integer(run, "max_length", 2048, 8, 1 << 20),
        long=long,
        layers=None if layers == "auto" else _layers(layers),
        samples=_integer(run, "samples", 64, 1, 100_000_000),
        batch_size=_integer(run, "batch_size", 8, 1, 4096),
        dtype=dtype,
        backend=_backend(_table(stages, "extract")),
        train_steps=_integer(_table(stages, "target"), "steps", Settings.train_steps, 1, 1_000_000, "stage.target"),
        stage_env={name: _environment(name, _table(stages, name)) for name in stages},
        python=_python(pair, _table(environments, pair)),
        torch_index=_torch_index(pair, _table(environments, pair)),
    )


def of_attempt() -> Settings:
    """Settings of the attempt this process runs in (EYAS_ATTEMPT/spec.json)."""
    spec = json.loads((Path(os.environ[ATTEMPT]) / "spec.json").read_text(encoding="utf-8"))
    return parse(spec.get("settings") or {})


def _bad(message: str, remedy: str) -> Problem:
    return Problem("bad_settings", f"{message}.", remedy)


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, Mapping):
        raise _bad(f"{key} is {value!r}, which is no table of settings", f"Write [{key}] and its keys below.")
    return value


def _text(table: Mapping[str, Any], key: str, default: str) -> str:
    value = table.get(key, default)
    if not isinstance(value, str) or not value or "\0" in value:
        raise _bad(f"run.{key} is {value!r}, which is no text", f"Give a text, such as {default!r}.")
    return value


def _integer(table: Mapping[str, Any], key: str, default: int, low: int, high: int, place: str = "run") -> int:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _bad(f"{place}.{key} is {value!r}", f"Give a whole number from {low} to {high}, such as {default}.")
    return value


def _layers(value: Any) -> tuple[int, ...]:
    ids = tuple(value) if isinstance(value, list) else ()
    whole = all(isinstance(i, int) and not isinstance(i, bool) and i >= 1 for i in ids)
    if len(ids) != AUX_LAYERS or not whole or list(ids) != sorted(set(ids)):
        raise _bad(
            f"run.layers is {value!r}",
            f'Give "auto" or {AUX_LAYERS} rising layer ids of 1 or more in vLLM\'s convention, such as [2, 30, 58].',
        )
    return ids


def _backend(extract: Mapping[str, Any]) -> str:
    value = extract.get("backend", AUTO)
    if value not in BACKENDS:
        raise _bad(f"stage.extract.backend is {value!r}", f"Use one of: {', '.join(BACKENDS)}.")
    return str(value)


def _environment(stage: str, table: Mapping[str, Any]) -> dict[str, str]:
    env = _table(table, "env")
    for name, value in env.items():
        if not isinstance(value, str) or "\0" in value or "=" in name or not name:
            raise _bad(f"stage.{stage}.env.{name} is {value!r}, which is no text", f'Write {name} = "value".')
    return dict(env)


def _python(pair: str, table: Mapping[str, Any]) -> str | None:
    value = table.get("python")
    if value is None:
        return None
    if not isinstance(value, str) or not Path(value).expanduser().is_absolute():
        raise _bad(
            f"environment.{pair}.python is {value!r}", "Give the full path of a Python, such as /opt/env/bin/python."
        )
    return str(Path(value).expanduser())


def _torch_index(pair: str, table: Mapping[str, Any]) -> str | None:
    value = table.get("torch_index")
    if value is None:
        return None
    if isinstance(value, str) and ("://" in value or Path(value).expanduser().is_absolute()):
        return value if "://" in value else str(Path(value).expanduser())
    raise _bad(
        f"environment.{pair}.torch_index is {value!r}",
        "Give the address of a package index (https://...) or the full path of a folder of wheels.",
    )
