"""speculators' trainer takes the number of a GPU for the device that model and batches go to."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Symptom

ID = "cpu-train-device"
MODULE = "speculators.train.trainer"
NAME = "get_local_rank"
REPLACES = f"speculators.train.distributed.{NAME}"
WRITTEN_FOR = ("733fcc680ab9b80d215220debcc629472c30cfe1f0752c5b14c6cb0172fab252",)


def probe(site: Path) -> Probe:
    setup = source.find(site, f"{MODULE}.Trainer.setup_model")
    moved = [call for call in source.calls(setup, "self.model.to") if "self.local_rank" in map(ast.unparse, call.args)]
    if moved:
        return Probe(True, f"{setup.at(moved[0])} moves the model to the device of a rank's number, which is a GPU's")
    return Probe(False, f"{setup.place} does not move the model to the device of a rank's number")


def apply() -> None:
    torch = importlib.import_module("torch")
    vars(_trainer())[NAME] = lambda: torch.device("cpu")


def verify() -> str:
    found = vars(_trainer())[NAME]()
    return "" if getattr(found, "type", None) == "cpu" else f"the trainer's device is {found!r}, not the CPU"


def _trainer() -> Any:
    return importlib.import_module(MODULE)


PATCH = Patch(
    id=ID,
    drift="D34",
    title="The trainer has no device but a GPU",
    speculators=">=0.9.0",
    vllm=">=0.11.0",
    cause="Trainer moves the model and every batch to its local rank, a bare number, which torch takes for that of an "
    "accelerator. On a host without one training ends before its first step.",
    mend="Gives the trainer the CPU as its device.",
    probe=probe,
    apply=apply,
    verify=verify,
    where="driver",
    after=MODULE,
    replaces=REPLACES,
    written_for=WRITTEN_FOR,
    symptoms=(Symptom("RuntimeError", message=r"Cannot access accelerator device", functions=("setup_model", "to")),),
    cpu_only=True,
    risk="None: the trainer uses the number for nothing else.",
)
