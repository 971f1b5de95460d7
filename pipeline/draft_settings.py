"""Settings of the stages that make and measure the draft model, checked value by value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.checked import integer, number

SPECULATIVE_TOKENS = 3
"""Tokens that a draft model proposes in a round, where nothing else is asked for."""


@dataclass(frozen=True)
class TrainSettings:
    """[stage.train]"""

    epochs: int = 3
    lr: float = 1e-3
    ttt_steps: int = SPECULATIVE_TOKENS
    """Steps of training-time test: how far the draft learns to follow its own states."""

    @classmethod
    def parse(cls, section: Mapping[str, Any]) -> TrainSettings:
        place = "stage.train"
        return cls(
            epochs=integer(section, "epochs", cls.epochs, 1, 10_000, place),
            lr=number(section, "lr", cls.lr, 1e-8, 1.0, place),
            ttt_steps=integer(section, "ttt_steps", cls.ttt_steps, 1, 16, place),
        )


@dataclass(frozen=True)
class ExportSettings:
    """[stage.export]"""

    @classmethod
    def parse(cls, section: Mapping[str, Any]) -> ExportSettings:
        return cls()


@dataclass(frozen=True)
class EvaluateSettings:
    """[stage.evaluate]"""

    @classmethod
    def parse(cls, section: Mapping[str, Any]) -> EvaluateSettings:
        return cls()
