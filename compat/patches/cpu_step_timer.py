"""speculators' trainer waits for an accelerator to finish each step that it logs, and there is none."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Symptom

ID = "cpu-step-timer"
MODULE = "speculators.train.trainer"
REPLACES = f"{MODULE}._StepTimer"
SYNCHRONIZE = "torch.accelerator.synchronize"
WRITTEN_FOR = ("0a0f44cffee2ef4849f26d6a157a505f15a1c819b1a287d581c7de365852bbac",)


def probe(site: Path) -> Probe:
    timer = source.find(site, REPLACES)
    waits = source.calls(timer, SYNCHRONIZE)
    if waits:
        return Probe(True, f"{timer.at(waits[0])} synchronizes with an accelerator, whether there is one or not")
    return Probe(False, f"{timer.place} does not synchronize with an accelerator")


def apply() -> None:
    def mark(self: Any, name: str) -> None:
        if self.enabled:
            self._marks[name] = time.perf_counter()

    def now(self: Any) -> float | None:
        return time.perf_counter() if self.enabled else None

    timer = _timer()
    timer.mark, timer.now = mark, now


def verify() -> str:
    """Marks a moment as the trainer does."""
    try:
        timer = _timer()(enabled=True)
        timer.mark("fetch")
        return "" if timer.now() >= timer._marks["fetch"] else "the timer runs backwards"
    except RuntimeError as error:
        return f"the timer still asks for an accelerator ({error})"


def _timer() -> Any:
    return importlib.import_module(MODULE)._StepTimer


PATCH = Patch(
    id=ID,
    drift="D36",
    title="The step timer asks for an accelerator",
    speculators=">=0.9.0",
    vllm=">=0.11.0",
    cause="_StepTimer calls torch.accelerator.synchronize() at each mark of a logged step, which raises where there is "
    "no accelerator; by default every step is logged, so the first one fails.",
    mend="Has the timer take the time without waiting: on the CPU a step is over when its calls return.",
    probe=probe,
    apply=apply,
    verify=verify,
    where="driver",
    after=MODULE,
    replaces=REPLACES,
    written_for=WRITTEN_FOR,
    symptoms=(Symptom("RuntimeError", message=r"Cannot access accelerator device", functions=("mark",)),),
    cpu_only=True,
    risk="None: there is no memory of a device to report either.",
)
