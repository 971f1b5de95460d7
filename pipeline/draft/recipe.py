"""How a draft model is trained: the settings with their defaults filled in, and what a training is bound to."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from pipeline.draft import profile
from pipeline.draft.shape import Shape
from pipeline.settings import Settings

EPOCHS, TINY_EPOCHS = 3, 8
LR, TINY_LR = 1e-3, 1e-2
"""speculators' own rate with Muon. A tiny target's few samples want more of both: measured on 64 samples, eight epochs,
simulated acceptance 1.44 at 2e-3, 2.16 at 5e-3 and 2.95 at 1e-2 with Muon, 2.77 at 4e-3 with AdamW."""
PACK, CPU_PACK = 8192, 512
"""Tokens of a batch. Attention over a pack is dense on the CPU, so its cost grows with the square."""
VALIDATED = 0.1
"""Share of the samples, the last ones, that training does not see."""
SEED = 0


@dataclass(frozen=True)
class Recipe:
    """What decides the weights that come out, the data aside."""

    shape: Shape
    epochs: int
    lr: float
    optimizer: str
    ttt_steps: int
    pack_tokens: int
    processes: int
    """Of all hosts together."""
    shard: bool
    seed: int = SEED

    @property
    def digest(self) -> str:
        """Of all but the number of epochs: a training may be prolonged."""
        parts = {key: value for key, value in asdict(self).items() if key != "epochs"}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def recipe(settings: Settings, gpus: int) -> Recipe:
    """The recipe on a host with that many GPUs (0: on the CPU)."""
    train = settings.train
    tiny = settings.makes_target
    return Recipe(
        shape=profile.shape(settings),
        epochs=train.epochs or (TINY_EPOCHS if tiny else EPOCHS),
        lr=train.lr or (TINY_LR if tiny else LR),
        optimizer=train.optimizer,
        ttt_steps=train.ttt_steps,
        # A longer sample would be cut to the pack.
        pack_tokens=train.pack_tokens or max(settings.max_length, PACK if gpus else CPU_PACK),
        processes=train.nodes * processes(settings, gpus),
        shard=train.shard,
    )


def processes(settings: Settings, gpus: int) -> int:
    """Training processes of one host."""
    return settings.train.gpus or max(1, gpus)
