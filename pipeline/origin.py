"""What hidden states depend on beside their tokens; each line of the manifest has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipeline import identity
from pipeline.layers import Layers, choose
from pipeline.settings import Settings


def text_config(target: Path) -> dict[str, Any]:
    """config.json of a model folder, or of the language model inside a wrapper."""
    config: dict[str, Any] = json.loads((target / "config.json").read_text(encoding="utf-8"))
    return config.get("text_config") or config


def layers(wanted: Settings, target: Path) -> Layers:
    return choose(int(text_config(target)["num_hidden_layers"]), wanted.layers)


def of(wanted: Settings, target: Path) -> dict[str, Any]:
    """Reads the target's weights, where they are not large, for their digest."""
    return {
        "target": identity.digest(target),
        "tokenizer": identity.tokenizer_digest(target),
        "layers": layers(wanted, target).to_json(),
        "dtype": wanted.dtype,
        "max_length": wanted.max_length,
        "states": wanted.extract.states,
    }
