"""What a stage tells: events in the attempt's `events.jsonl`, logs and tracebacks on stderr."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import NoReturn

from compat import record

STOPPED = 128 + signal.SIGTERM
"""Exit status of a stage that ended because it was asked to."""


class Stopped(SystemExit):
    """The stage was asked to stop (SIGTERM or SIGINT)."""


class StageError(Exception):
    """A stage cannot go on: one sentence that names the thing, the place and the remedy."""


def attempt() -> str:
    """`RUN/STAGE/N`, of the attempt this process runs in."""
    return "/".join(Path(os.environ[record.ATTEMPT]).parts[-3:])


def progress(label: str, done: float, total: float | None = None, unit: str = "", eta_s: float | None = None) -> None:
    record.append("progress", label=label, done=done, total=total, unit=unit, eta_s=eta_s)


def metric(name: str, value: float, step: int | None = None) -> None:
    """A figure: its latest value is shown, and with a step (optimiser steps so far) its curve as well.

    The metrics screen knows these names; any other is shown as it is.
    In training: `loss`, `accuracy_1` to `accuracy_k` (k-th position, 0 to 1), `acceptance` (simulated tokens a round),
    `lr`, `tokens_per_s`, `eta_s`; the same on held-out samples behind `val/`, as in `val/loss`.
    In evaluation: `acceptance/SET/KIND` for a set of prompts, KIND `simulated`, `served` or `untrained`, with
    `accuracy_k/SET/KIND` beside it.
    """
    record.append("metric", name=name, value=value, **({} if step is None else {"step": step}))


def artifact(path: Path) -> None:
    record.append("artifact", path=str(path))


def note(text: str) -> None:
    """A short sentence for the operator; it goes to the log as well."""
    logging.getLogger("pipeline").info(text)
    record.append("note", text=text)


class Pace:
    """Progress with an ETA from the mean pace since the start."""

    def __init__(self, label: str, total: int, unit: str, done: int = 0) -> None:
        self._label, self._total, self._unit = label, total, unit
        self._first = self.done = done
        self._start = time.monotonic()
        self.tell()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def step(self, count: int = 1) -> None:
        self.done += count
        self.tell()

    def tell(self) -> None:
        made = self.done - self._first
        eta = self.seconds / made * (self._total - self.done) if made else None
        progress(self._label, self.done, self._total, self._unit, None if eta is None else round(eta, 1))


def run_stage(module: str) -> NoReturn:
    """Imports a stage, runs its `main`, ends the process: 0, 1 after an exception (told in full), 143 when stopped."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    try:
        importlib.import_module(module).main()
    except Stopped:
        note("Stopped on request; what is on disk stays, and the next attempt goes on from there.")
        raise
    except SystemExit:
        raise
    except BaseException as error:
        _tell(error)
        raise SystemExit(1) from None
    raise SystemExit(0)


def _stop(signum: int, _frame: FrameType | None) -> None:
    # Once is enough: a second signal must not interrupt the cleaning up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise Stopped(STOPPED if signum == signal.SIGTERM else 128 + signum)


def _tell(error: BaseException) -> None:
    # From the stage's `main` down: the frame of run_stage itself says nothing.
    outer = error.__traceback__
    error.__traceback__ = outer.tb_next if outer and outer.tb_next else outer
    text = "".join(traceback.format_exception(error))
    sys.stdout.flush()
    sys.stderr.write(text)
    sys.stderr.flush()
    kind = type(error)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    record.append("exception", type=name, message=str(error), text=text)
