"""speculators loads a checkpoint's tensors onto cuda:0 where there is no accelerator, so no training is resumed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Symptom

ID = "cpu-checkpoint-device"
MODULE = "speculators.train.checkpointer"
NAME = "get_current_device"
REPLACES = f"speculators.utils.util.{NAME}"
WRITTEN_FOR = ("1c2ca96f578642fcbc12226f3ed24e184ed4da1acad6bb502ec17d16a75cd388",)


def probe(site: Path) -> Probe:
    device = source.find(site, REPLACES)
    loader = source.find(site, f"{MODULE}.SingleGPUCheckpointer.load_model_state_dict")
    asked = source.calls(loader, NAME)
    if asked and '"cuda:0"' in device.text:
        return Probe(True, f"{loader.at(asked[0])} loads onto what {device.place} names, cuda:0 without an accelerator")
    return Probe(False, f"{loader.place} does not load onto cuda:0")


def apply() -> None:
    vars(_checkpointer())[NAME] = lambda: "cpu"


def verify() -> str:
    found = vars(_checkpointer())[NAME]()
    return "" if found == "cpu" else f"checkpoints are loaded onto {found}, not onto the CPU"


def _checkpointer() -> Any:
    return importlib.import_module(MODULE)


PATCH = Patch(
    id=ID,
    drift="D37",
    title="A checkpoint is loaded onto cuda:0 where there is none",
    speculators=">=0.9.0",
    vllm=">=0.11.0",
    cause="get_current_device() names cuda:0 where torch has no accelerator, and the checkpointer loads the model and "
    "the optimizer's moments onto it. Training that was interrupted on a CPU host cannot be resumed.",
    mend="Loads checkpoints onto the CPU.",
    probe=probe,
    apply=apply,
    verify=verify,
    where="driver",
    after=MODULE,
    replaces=REPLACES,
    written_for=WRITTEN_FOR,
    symptoms=(Symptom("RuntimeError", functions=("load_model_state_dict", "load_safetensors_state_dict")),),
    cpu_only=True,
    risk="None known.",
)
