"""All that training goes on from: weights and moments in full precision, learning rate, random numbers, position.

speculators' own checkpoints round all of them to bfloat16, Adam's step counter too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.draft import checkpoints, model


@dataclass(frozen=True)
class Position:
    epoch: int
    """From 0."""
    done: int
    """Steps of this epoch that are done."""
    step: int
    """Steps of all epochs."""


def save(trainer: Any, folder: Path, position: Position) -> None:
    """Writes a checkpoint; every process of the training calls it, and the first writes."""
    weights, moments = _gathered(trainer)
    if trainer.rank == 0:
        raw = _raw(trainer.model)
        trained = {name for name, parameter in raw.named_parameters() if parameter.requires_grad}
        state = {
            "position": (position.epoch, position.done, position.step),
            "weights": {name: tensor for name, tensor in weights.items() if name in trained},
            "moments": moments,
            "rates": [schedule.state_dict() for schedule in trainer.schedulers],
            "random": _random_state(),
        }

        def fill(half: Path) -> None:
            import torch

            model.save(raw, half, weights)
            torch.save(state, half / checkpoints.RESUME)

        checkpoints.publish(folder, position.step, fill)
        checkpoints.prune(folder, position.step)
    if trainer.is_distributed:
        import torch.distributed

        torch.distributed.barrier()


def load(checkpoint: Path) -> dict[str, Any]:
    import torch

    found: dict[str, Any] = torch.load(checkpoint / checkpoints.RESUME, map_location="cpu", weights_only=True)
    return found


def restore_weights(draft: Any, state: dict[str, Any]) -> None:
    """Into the model as it was built, before it is moved or wrapped."""
    draft.load_state_dict(state["weights"], strict=False)


def restore_rest(trainer: Any, state: dict[str, Any]) -> None:
    """Moments, learning rate and random numbers, once the trainer has its optimizers."""
    if trainer.config.fsdp_shard and trainer.is_distributed:
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_optimizer_state_dict

        whole = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_optimizer_state_dict(trainer.model, trainer.optimizers, state["moments"], options=whole)
    else:
        for optimizer, moments in zip(trainer.optimizers, state["moments"], strict=True):
            optimizer.load_state_dict(moments)
    for schedule, rates in zip(trainer.schedulers, state["rates"], strict=True):
        schedule.load_state_dict(rates)
        for group, rate in zip(schedule.optimizer.param_groups, schedule.get_last_lr(), strict=True):
            group["lr"] = rate
    _set_random_state(state["random"])


def _gathered(trainer: Any) -> tuple[dict[str, Any], Any]:
    """(the draft model's weights, the optimizers' state), whole; of shards, collected from all processes."""
    if trainer.config.fsdp_shard and trainer.is_distributed:
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            get_model_state_dict,
            get_optimizer_state_dict,
        )

        whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
        return (
            get_model_state_dict(trainer.model, options=whole),
            get_optimizer_state_dict(trainer.model, trainer.optimizers, options=whole),
        )
    return _raw(trainer.model).state_dict(), [optimizer.state_dict() for optimizer in trainer.optimizers]


def _raw(wrapped: Any) -> Any:
    """The draft model inside of DistributedDataParallel."""
    return getattr(wrapped, "module", wrapped)


def _random_state() -> dict[str, Any]:
    import numpy
    import torch

    name, keys, *rest = numpy.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": (name, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
    }


def _set_random_state(state: dict[str, Any]) -> None:
    import numpy
    import torch

    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    numpy.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
