"""A run of all ten stages that trains: its figures are events in files, folded by the agent's own code."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from console_fakes import LOG, PATCHES, FakeSession, failed_run, sample

from console.curves import Curves
from remote import protocol
from remote.agent.curves import RunCurves
from remote.agent.layout import Run
from remote.views import DONE, RUNNING, WAITING, AttemptView, RunView, StageProgress, StageView

STAGES = {
    "provision": "Make the stage environments",
    "target": "Make a tiny target model",
    "prepare": "Conversations to token ids and loss mask",
    "extract": "Extract hidden states",
    "verify": "Prove the hidden states",
    "vocab": "Choose the draft vocabulary",
    "loadcheck": "Load an untrained draft in the engine",
    "train": "Train the draft model",
    "evaluate": "Measure acceptance, simulated and served",
    "export": "Write the draft model's folder",
}
STEPS = 600
ACCEPTANCE = {
    "stdlib": {"untrained": 1.026, "simulated": 3.082, "served": 3.082},
    "ops reports": {"untrained": 1.011, "simulated": 2.731, "served": 2.731},
    "held out": {"untrained": 1.02, "simulated": 2.906, "served": 2.894},
}


def training_events(steps: int = STEPS) -> list[dict[str, Any]]:
    """As training reports: smooth, so that pictures of it stay the same."""
    told: list[dict[str, Any]] = []
    for step in range(0, steps, 2):
        share = step / STEPS
        rise = 1 - math.exp(-4 * share)
        figures = {
            "loss": 6.9 * math.exp(-3 * share) + 1.1 + 0.08 * math.sin(step),
            **{f"accuracy_{k}": 0.86 * rise / k**0.35 for k in (1, 2, 3)},
            "acceptance": 1 + 2.08 * rise,
            "lr": 1e-3 * min(1.0, step / 30) * (1 - 0.9 * share),
            "tokens_per_s": 2280 + 40 * math.sin(step / 7),
            "eta_s": (STEPS - step) * 0.2,
        }
        if step % 100 == 0 and step:
            figures |= {"val/loss": figures["loss"] * 1.04 + 0.05, "val/acceptance": 1 + 2.0 * rise}
            figures |= {f"val/accuracy_{k}": 0.84 * rise / k**0.35 for k in (1, 2, 3)}
        told += [{"kind": "metric", "name": name, "value": value, "step": step} for name, value in figures.items()]
    return told


def evaluation_events() -> list[dict[str, Any]]:
    told = []
    for prompts, lengths in ACCEPTANCE.items():
        for kind, value in lengths.items():
            told.append({"kind": "metric", "name": f"acceptance/{prompts}/{kind}", "value": value})
            told += [
                {"kind": "metric", "name": f"accuracy_{k}/{prompts}/{kind}", "value": (value - 1) / 3 + 0.1 / k}
                for k in (1, 2, 3)
            ]
    return told


def latest(events: list[dict[str, Any]]) -> dict[str, float]:
    return {event["name"]: event["value"] for event in events}


def trained_run(done: bool, steps: int = STEPS) -> RunView:
    """`done`: evaluated and exported; else training is at `steps`."""
    ok = AttemptView(1, "exited", rc=0, elapsed=41.0, log_bytes=len(LOG), log_id="1:1", clean=True)
    names = list(STAGES)
    stages = []
    for name, title in STAGES.items():
        past = done or names.index(name) < names.index("train")
        stages.append(StageView(name, title, DONE if past else WAITING, (ok,) if past else ()))
    trained = names.index("train")
    training = latest(training_events(steps))
    stages[trained] = replace(stages[trained], metrics=training)
    if done:
        stages[trained + 1] = replace(stages[trained + 1], metrics=latest(evaluation_events()))
    else:
        stages[trained] = replace(
            stages[trained],
            state=RUNNING,
            attempts=(AttemptView(1, "running", elapsed=63.0, log_bytes=len(LOG), log_id="1:2"),),
            progress=StageProgress("training", steps, STEPS, "steps", training["eta_s"]),
        )
    return replace(failed_run(), pair="current", stages=tuple(stages))


class TrainingSession(FakeSession):
    """Answers METRICS from events on disk."""

    def __init__(self, done: bool = False, steps: int = STEPS // 2) -> None:
        super().__init__(trained_run(done, steps), PATCHES, LOG)
        self.sample = sample(0, "NVML is not there: libnvidia-ml.so.1 not found")
        self.events = Path(self._folder.name) / "run"
        self.reported = 0
        self.report("train", training_events(STEPS if done else steps))
        if done:
            self.report("evaluate", evaluation_events())
        self._curves = RunCurves(Run(str(self.events)))

    def report(self, stage: str, events: list[dict[str, Any]]) -> None:
        file = self.events / stage / "1" / "events.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as out:
            out.writelines(json.dumps(event) + "\n" for event in events)
        self.reported += len(events)

    def all_told(self, curves: Curves) -> bool:
        """Whether these are all that was reported: it travels piece by piece."""
        return sum(curve.reports for curve in curves.values()) == self.reported

    def request(self, op: str, /, **params: Any) -> dict[str, Any]:
        if op == protocol.METRICS and op not in self.refuse:
            self.requests.append((op, params))
            return self._curves.answer(params["have"])
        return super().request(op, **params)
