"""A run that is ready to be trained on: its hidden states come from plain transformers, and its verdict from here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from engine_run import Attempt, Run

from pipeline import dataset, products, store, verified
from pipeline.draft import checkpoints
from pipeline.gates.report import passed
from pipeline.verified import Verdict

TRAIN = {"epochs": 2, "pack_tokens": 128, "ttt_steps": 2, "checkpoint_steps": 3}


def ready(place: Path, samples: int = 40, length: int = 64) -> Run:
    """A run of the current pair up to its vocabulary."""
    settings = {
        "run": {"pair": "current", "samples": samples, "max_length": length, "draft_vocabulary": 512},
        "stage": {"target": {"steps": 40}, "extract": {"backend": "transformers"}, "train": dict(TRAIN)},
    }
    made = Run(place, settings)
    for name in ("provision", "target", "prepare", "extract"):
        done(made, name)
    with attempt_of(made):
        data = store.data_digest(products.hidden_states(), dataset.read(products.dataset()))
        verified.write(Verdict(data, (passed("rows", "Made by transformers, for tests of training."),)))
    done(made, "vocab")
    return made


def another(run: Run, place: Path, **train: Any) -> Run:
    """A run of the same data, with a training of its own."""
    settings = json.loads(json.dumps(run.settings))
    settings["stage"]["train"].update(train)
    made = Run(place, settings)
    made.products.mkdir()
    for path in run.products.iterdir():
        if not path.name.startswith("checkpoints"):
            (made.products / path.name).symlink_to(path)
    return made


def done(run: Run, stage: str) -> Attempt:
    attempt = run.stage(stage)
    assert attempt.rc == 0, attempt.log[-6000:]
    return attempt


@contextmanager
def attempt_of(run: Run) -> Iterator[None]:
    """This process knows the products of a run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYAS_RUN", str(run.folder))
        yield


def folder(run: Run) -> Path:
    return run.products / "checkpoints"


def record(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder(run) / "training.json").read_text())
    return found


def weights(run: Run) -> bytes:
    """Of the best checkpoint, to the bit."""
    return (checkpoints.best(folder(run)) / "model.safetensors").read_bytes()


def torn(run: Run) -> list[str]:
    return [
        checkpoint.folder.name for checkpoint in checkpoints.every(folder(run)) if checkpoints.damage(checkpoint.folder)
    ]
