"""A Qwen3-type target: as Llama, with a norm on queries and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.targets.llama import SHAPE, SPECIAL, save

__all__ = ["SHAPE", "SPECIAL", "make", "save"]


def make(common: Mapping[str, Any]) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**SHAPE, **common))
