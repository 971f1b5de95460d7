"""One process of a training: speculators' own command line, with its trainer derived from and the draft model built.

Run by the stage itself, or by torchrun, once for each GPU (`python -m pipeline.draft.work CHECKPOINT`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from compat import record as events
from compat.activate import activate
from compat.switches import VARIABLE, parse
from pipeline import products, settings, store, training_data
from pipeline.draft import command, model, record, tied, trainer
from pipeline.draft import recipe as recipes
from pipeline.layers import Layers
from pipeline.report import StageError, run_stage
from pipeline.settings import Settings

WORKERS = 8
"""Processes that read hidden states for one GPU, at most."""


def gpus() -> int:
    import torch

    return int(torch.accelerator.device_count()) if torch.accelerator.is_available() else 0


def captured(folder: Path) -> Layers:
    """The layers that the hidden states were captured at. Raises StageError when there are none."""
    entry = next(iter(store.entries(folder).values()), None)
    if entry is None:
        raise StageError(f"There are no hidden states in {folder}; run the stage extract first.")
    return Layers(tuple(entry["layers"]["vllm_ids"]))


def train(wanted: Settings, checkpoint: str) -> None:
    """Trains to the end, from a checkpoint by its name or from the start (""). Every process of a training calls it.

    Only the first one's checkpoint and record count.
    """
    found = record.read(products.checkpoints()) or record.Record("", "", "", "")
    first = os.environ.get("RANK", "0") == "0"
    activate("driver", parse(os.environ.get(VARIABLE, "")), _report if first else lambda applied: None)
    from speculators.train import cli
    from speculators.train import trainer as stock
    from speculators.train.config import TrainConfig

    on_gpu = gpus()
    recipe = recipes.recipe(wanted, on_gpu)
    target, layers = products.target(wanted), captured(products.hidden_states())
    stock.tqdm = lambda batches, **_words: batches  # a bar that a thread redraws ten times a second, for no terminal
    cli.Trainer = trainer.derive(
        cli.Trainer, products.checkpoints(), found, checkpoint, wanted.train.checkpoint_steps, wanted.train.patience
    )

    def build(arguments: Any, *_given: Any) -> Any:
        return model.untrained(
            target, layers, products.vocabulary(), recipe.shape, recipe.seed, arguments.draft_attn_impl
        )

    cli.build_draft_model = build  # reads targets that transformers alone does not
    tokens = training_data.tokens(products.training_data())
    workers = min(WORKERS, (os.cpu_count() or 1) // recipes.processes(wanted, on_gpu)) if on_gpu else 0
    line = command.arguments(recipe, target, layers, products.folder(), tokens, bool(on_gpu), workers)
    cli.main(TrainConfig.resolve(line))


def _report(applied: Any) -> None:
    events.patch(applied, "driver")


def main() -> None:
    tied.to_launcher()
    train(settings.of_attempt(), sys.argv[1] if len(sys.argv) > 1 else "")


if __name__ == "__main__":
    run_stage("pipeline.draft.work")
