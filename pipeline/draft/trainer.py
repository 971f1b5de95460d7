"""speculators' Trainer with checkpoints of ours: the steps, the data and the validation stay its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.draft import checkpoints, state
from pipeline.draft.live import Live
from pipeline.draft.record import Record
from pipeline.draft.state import Position
from pipeline.draft.stop import Stop
from pipeline.report import STOPPED, Stopped, metric, note


def derive(base: Any, folder: Path, record: Record, checkpoint: str, every: int, patience: int) -> type[Any]:
    """The class that speculators' command line makes its trainer of, in the place of `base`.

    `checkpoint` is the name of the one to go on from, "" for a new training; `every` the steps between two checkpoints;
    `patience` the epochs without a better acceptance after which training ends, 0 for never.
    """

    class Trainer(base):  # type: ignore[misc]
        def setup_trainer(self) -> None:
            name, record.history = _shared((checkpoint, record.history), self.is_distributed)
            self._resumed = state.load(folder / name) if name else None
            epoch, done, step = self._resumed["position"] if self._resumed else (0, 0, 0)
            self.current_epoch, self._resume_local_step = epoch, done
            self.global_step = self._resume_global_step = step
            self.best_val_loss = float("inf")

        def setup_model(self) -> None:
            if self._resumed:
                state.restore_weights(self.model, self._resumed)
            super().setup_model()

        def setup_optimizer(self) -> None:
            super().setup_optimizer()
            if self._resumed:
                state.restore_rest(self, self._resumed)
            self._saved = self.global_step if self._resumed else -1
            self._resumed = None  # its tensors are as large as the training's own

        def maybe_save_checkpoint(self, epoch: Any, local_step: int = 0) -> None:
            """Not here: `_save` is told when."""

        def run_training(self) -> None:
            self._stop = Stop()
            steps = self.config.num_epochs * len(self.train_loader)
            self._live = Live(steps, self.global_step)
            self._live.attach(tell=self.rank == 0)
            for epoch in range(self.current_epoch, self.config.num_epochs):
                if epoch >= len(record.history):  # else it was killed right after it was judged
                    self.train_epoch(epoch)
                    self._save(Position(epoch, self._done, self.global_step))
                    self._stop.at_once(True)
                    self.val_epoch(epoch)
                    self._stop.at_once(False)
                    self._judge(epoch)
                if patience and record.stale >= patience and epoch + 1 < self.config.num_epochs:
                    record.finished = f"No better acceptance in {patience} epochs."
                    break
            else:
                record.finished = f"All {self.config.num_epochs} epochs are done."
            if self.rank == 0:
                record.write(folder)

        def train_epoch(self, epoch: int, *, step_callback: Any = None) -> None:
            self._epoch = epoch
            self._done = self._resume_local_step if epoch == self.current_epoch else 0
            super().train_epoch(epoch, step_callback=self._after_step)

        def _after_step(self) -> None:
            self._done += 1
            position = Position(self._epoch, self._done, self.global_step)
            stop = self._stop.agreed(self)
            if stop or self.global_step % every == 0:
                self._save(position)
            if stop:
                raise Stopped(STOPPED)

        def _save(self, position: Position) -> None:
            if position.step != self._saved:
                state.save(self, folder, position)
                self._saved = position.step

        def _judge(self, epoch: int) -> None:
            """Takes the validation's figures into the record, and lets `best` follow the acceptance."""
            found = _shared(self._live.validated, self.is_distributed)
            accuracy = [value for name, value in found.items() if name.startswith("accuracy_")]
            record.history.append(
                {
                    "epoch": epoch + 1,
                    "step": self.global_step,
                    "checkpoint": checkpoints.name(self.global_step),
                    "acceptance": found["acceptance"],
                    "loss": found["loss"],
                    "accuracy": accuracy,
                }
            )
            best = record.best
            assert best is not None
            if self.rank == 0:
                record.write(folder)
                checkpoints.mark_best(folder, best["checkpoint"])
                metric("best_acceptance", round(best["acceptance"], 5))
                note(
                    f"Epoch {epoch + 1} of {self.config.num_epochs}: simulated acceptance {found['acceptance']:.3f} on "
                    f"held-out samples{', the best so far' if best is record.history[-1] else ''}; loss "
                    f"{found['loss']:.3f}."
                )

    return Trainer


def _shared(value: Any, is_distributed: bool) -> Any:
    """What the first process has, in every process."""
    if not is_distributed:
        return value
    import torch

    said = [value]
    torch.distributed.broadcast_object_list(said, src=0)
    return said[0]
