"""A data set of its own for drills, and stages that are killed at a moment of choice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine_run import Attempt, Run

from pipeline import dataset
from pipeline.dataset import Sample

MARKED = 1000
"""A token that no sample has but the one that asks for it."""


def samples(count: int, longest: int = 120, marked: int | None = None) -> list[Sample]:
    """The same samples each time: random tokens below MARKED; MARKED stands in the sample `marked`."""
    chance = random.Random(7)
    made = []
    for index in range(count):
        tokens = [chance.randrange(10, MARKED) for _ in range(chance.randint(8, longest))]
        if index == marked:
            tokens[3] = MARKED
        made.append(Sample(index, tuple(tokens), (1,) * len(tokens), f"drill:{index + 1}"))
    return made


def run_of(place: Path, target: Path, made: Sequence[Sample], pair: str, run: Any = None, /, **extract: Any) -> Run:
    """A run whose target and data set are there, with these settings of its stage extract."""
    given = {"pair": pair, "batch_size": 4, **(run or {})}
    drilled = Run(place, {"run": given, "stage": {"extract": extract}})
    drilled.products.mkdir()
    (drilled.products / "target").symlink_to(target)
    dataset.write(drilled.products / "dataset", made, {})
    return drilled


def states(run: Run) -> dict[str, bytes]:
    folder = run.products / "hidden_states"
    return {path.name: path.read_bytes() for path in folder.glob("hs_*")}


def leftovers(run: Run) -> list[str]:
    folder = run.products / "hidden_states"
    return [p.name for p in folder.iterdir() if not p.name.startswith("hs_") and p.name != "manifest.jsonl"]


def lines(run: Run) -> list[dict[str, Any]]:
    """Of the manifest; the last one may be cut off."""
    path = run.products / "hidden_states" / "manifest.jsonl"
    found = path.read_bytes().split(b"\n") if path.exists() else []
    return [json.loads(line) for line in found[:-1]]


class Started:
    """A stage in a process group of its own."""

    def __init__(self, run: Run, name: str = "extract") -> None:
        stage = run.plan[name]
        number = 1 + len(list((run.folder / name).glob("*")))
        self.folder = run.folder / name / str(number)
        self.folder.mkdir(parents=True)
        switches = {"mode": "auto", "on": [], "off": []}
        (self.folder / "spec.json").write_text(json.dumps({"settings": run.settings, "switches": switches}))
        env = {**os.environ, **stage["env"], "EYAS_RUN": str(run.folder), "EYAS_ATTEMPT": str(self.folder)}
        env["EYAS_SWITCHES"] = json.dumps(switches)
        with (self.folder / "stdout.log").open("ab") as log:
            self.process = subprocess.Popen(
                stage["argv"], cwd=stage["cwd"], env=env, stdout=log, stderr=log, start_new_session=True
            )

    def until(self, condition: Callable[[], bool], timeout: float = 600) -> bool:
        """Waits for it; False when the stage ended before."""
        deadline = time.monotonic() + timeout
        while not condition():
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < deadline, self.log
            time.sleep(0.005)
        return True

    def kill(self, whole_group: bool) -> bool:
        """SIGKILL to the driver or to all of its group; False when it had ended before. What survives is waited for."""
        alive = self.process.poll() is None
        if alive and not whole_group:
            self.process.kill()
            self.process.wait(60)
            self._settle()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)
        return alive

    def _settle(self) -> None:
        """Gives the driver's children the time to notice and to end."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                os.killpg(self.process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)

    def wait(self, timeout: float = 600) -> Attempt:
        try:
            return Attempt(self.folder, self.process.wait(timeout))
        finally:
            self.kill(whole_group=True)

    @property
    def log(self) -> str:
        return (self.folder / "stdout.log").read_text(errors="replace")
