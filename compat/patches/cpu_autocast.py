"""speculators' trainer asks for mixed precision on CUDA where there is no accelerator, so there is none at all."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Symptom

ID = "cpu-autocast"
MODULE = "speculators.train.trainer"
REPLACES = f"{MODULE}.Trainer.__init__"
NAME = "device_type"
WRITTEN_FOR = ("e886b32ea23b5fde0a5933a6cfaeab0d44fd86c953a60e9538ce0a1778326115",)


def probe(site: Path) -> Probe:
    init = source.find(site, REPLACES)
    for node in ast.walk(init.node):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == f"self.{NAME}":
            if "'cuda'" in ast.unparse(node.value):
                return Probe(True, f"{init.at(node)} takes CUDA for the device type where there is no accelerator")
            break
    return Probe(False, f"{init.place} does not take CUDA for the device type")


def apply() -> None:
    # Over the instance's own attribute, which Trainer sets after this.
    _trainer().device_type = property(lambda self: "cpu", lambda self, value: None)


def verify() -> str:
    trainer = _trainer()
    made = trainer.__new__(trainer)
    made.device_type = "cuda"
    return "" if made.device_type == "cpu" else f"the trainer's device type is {made.device_type}, not cpu"


def _trainer() -> Any:
    return importlib.import_module(MODULE).Trainer


PATCH = Patch(
    id=ID,
    drift="D35",
    title="Mixed precision is asked for on CUDA where there is none",
    speculators=">=0.9.0",
    vllm=">=0.11.0",
    cause="Trainer runs the draft model under torch.autocast for the accelerator's type, and without one for CUDA's. "
    "torch then warns and casts nothing, so that bfloat16 states meet float32 weights.",
    mend="Gives the trainer the CPU's device type; torch's autocast for the CPU knows bfloat16.",
    probe=probe,
    apply=apply,
    verify=verify,
    where="driver",
    after=MODULE,
    replaces=REPLACES,
    written_for=WRITTEN_FOR,
    symptoms=(Symptom("RuntimeError", message=r"same dtype, but got: .*BFloat16", functions=("train_epoch",)),),
    cpu_only=True,
    risk="None: the device type is used for autocast alone.",
)
