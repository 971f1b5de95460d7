"""Where a run's products lie; all attempts of the run share them."""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.settings import Settings


def folder() -> Path:
    return Path(os.environ["EYAS_RUN"]) / "products"


def target(settings: Settings) -> Path:
    """The target model's folder: the run's own, or the operator's."""
    return folder() / "target" if settings.makes_target else Path(settings.target)


def dataset() -> Path:
    return folder() / "dataset"


def hidden_states() -> Path:
    return folder() / "hidden_states"
