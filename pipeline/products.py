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


def verdict() -> Path:
    """What the gates said of the hidden states."""
    return folder() / "verify.json"


def vocabulary() -> Path:
    """d2t.npy, t2d.npy and vocabulary.json."""
    return folder() / "vocabulary"


def training_data() -> Path:
    """The samples as `speculators train` reads them."""
    return folder() / "training_data"


def untrained() -> Path:
    """A draft model as training begins with it."""
    return folder() / "untrained"


def checkpoints() -> Path:
    return folder() / "checkpoints"


def evaluation() -> Path:
    return folder() / "evaluation.json"


def export() -> Path:
    """The draft model's folder, as an engine serves it."""
    return folder() / "export"
