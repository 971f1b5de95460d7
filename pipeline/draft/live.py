"""Training's figures as they come: speculators' own metrics logger, told on as events."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from pipeline.report import metric, progress

LOGGER = "speculators.metrics"
RECENT = 50
"""Logged steps that a rate is taken over."""


def figures(metrics: Mapping[str, float], suffix: str = "") -> dict[str, float]:
    """speculators' metrics by the names of `pipeline.report.metric`.

    `full_acc_k` is the share of rounds in which the first k + 1 proposals are all accepted, so that their sum and the
    target's own token are the tokens a round: the acceptance length under greedy decoding.
    """
    accuracy: list[float] = []
    while (name := f"full_acc_{len(accuracy)}{suffix}") in metrics:
        accuracy.append(float(metrics[name]))
    found = {f"accuracy_{k}": value for k, value in enumerate(accuracy, 1)}
    return {"loss": float(metrics[f"loss{suffix}"]), **found, "acceptance": 1 + sum(accuracy)}


class Live(logging.Handler):
    """Turns records of the metrics logger into events, with pace and time left."""

    def __init__(self, steps: int, done: int) -> None:
        super().__init__(logging.INFO)
        self._steps = steps
        self._marks: list[tuple[float, int]] = [(time.monotonic(), done)]
        self._rates: list[float] = []
        self._told = 0.0
        self.validated: dict[str, float] | None = None
        """Figures of the latest validation."""

    def attach(self, tell: bool = True) -> None:
        """To be called once the trainer has set its loggers up; of several processes one tells."""
        logger = logging.getLogger(LOGGER)
        logger.propagate = False  # the log would have a table a step
        logger.handlers = [self if tell else logging.NullHandler()]

    def emit(self, record: logging.LogRecord) -> None:
        message: Any = record.msg
        if not isinstance(message, Mapping):
            return
        step = int(getattr(record, "step", 0))
        if "train" in message:
            self._train(message, step + 1)
        elif "val" in message:
            self.validated = figures(message["val"], "_epoch")
            for name, value in self.validated.items():
                metric(f"val/{name}", round(value, 5), step)

    def _train(self, message: Mapping[str, Any], step: int) -> None:
        for name, value in figures(message["train"]).items():
            metric(name, round(value, 5), step)
        rate = message["lr"]
        metric("lr", max(rate.values()) if isinstance(rate, Mapping) else rate, step)
        self._rates = [*self._rates[1 - RECENT :], float((message["profile"] or {}).get("tokens_per_s", 0.0))]
        metric("tokens_per_s", round(sum(self._rates) / len(self._rates), 1), step)
        now = time.monotonic()
        self._marks = [*self._marks[-RECENT:], (now, step)]
        (then, first), left = self._marks[0], max(0, self._steps - step)
        eta = (now - then) / (step - first) * left if step > first else None
        if eta is not None:
            metric("eta_s", round(eta, 1), step)
        if now - self._told > 0.5 or not left:
            self._told = now
            progress("training", step, self._steps, "steps", None if eta is None else round(eta, 1))
