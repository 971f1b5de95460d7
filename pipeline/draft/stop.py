"""A training asked to stop does so between two steps, where its state is whole, or at once where nothing is lost."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

from pipeline.report import STOPPED, Stopped


class Stop:
    """Takes SIGTERM and SIGINT over."""

    def __init__(self) -> None:
        self.asked = False
        self._now = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, _signum: int, _frame: FrameType | None) -> None:
        self.asked = True
        if self._now:
            self._now = False
            raise Stopped(STOPPED)

    def at_once(self, allowed: bool) -> None:
        """Whether a wish to stop ends what is being done, rather than wait for `agreed`."""
        self._now = allowed
        if allowed and self.asked:
            raise Stopped(STOPPED)

    def agreed(self, trainer: Any) -> bool:
        """Whether any process of the training was asked; every process calls it after each step."""
        if not trainer.is_distributed:
            return self.asked
        import torch

        asked = torch.tensor(float(self.asked), device=trainer.local_rank)
        torch.distributed.all_reduce(asked, op=torch.distributed.ReduceOp.MAX)
        return bool(asked.item())
