"""speculators sets up several training processes only where there is an accelerator."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Symptom

ID = "cpu-distributed"
MODULE = "speculators.train.distributed"
NAME = "maybe_setup_distributed"
REPLACES = f"{MODULE}.{NAME}"
WRITTEN_FOR = ("7b5f6228c3cd6b9115b0dee1e485d26b19c5ce17236d13d0c1f41378fd169864",)


def probe(site: Path) -> Probe:
    setup = source.find(site, REPLACES)
    chosen = source.calls(setup, "torch.accelerator.set_device_index")
    if chosen:
        return Probe(
            True, f"{setup.at(chosen[0])} chooses an accelerator for each process, whether there is one or not"
        )
    return Probe(False, f"{setup.place} does not choose an accelerator")


def setup(sp_size: int = 1) -> None:
    """Joins the processes that torchrun started, through gloo; does nothing in a process of its own."""
    if "LOCAL_RANK" not in os.environ:
        return
    module = _distributed()
    module.dist.init_process_group("gloo")
    module._is_distributed = True
    module._local_rank = int(os.environ["LOCAL_RANK"])
    module._rank = module.dist.get_rank()
    module._world_size = module.dist.get_world_size()
    module._init_sp_process_groups(module._rank, module._world_size, sp_size)


def apply() -> None:
    vars(_distributed())[NAME] = setup


def verify() -> str:
    return "" if vars(_distributed())[NAME] is setup else "speculators' own set-up is in place"


def _distributed() -> Any:
    return importlib.import_module(MODULE)


PATCH = Patch(
    id=ID,
    drift="D38",
    title="Several training processes need an accelerator each",
    speculators=">=0.9.0",
    vllm=">=0.11.0",
    cause="maybe_setup_distributed() chooses an accelerator by the process's local rank and joins the others through "
    "the accelerator's own backend. Under torchrun on a CPU host it raises in every process.",
    mend="Joins the processes through gloo.",
    probe=probe,
    apply=apply,
    verify=verify,
    where="driver",
    after=MODULE,
    replaces=REPLACES,
    written_for=WRITTEN_FOR,
    symptoms=(
        Symptom("RuntimeError", message=r"Cannot access accelerator device", functions=("maybe_setup_distributed",)),
    ),
    cpu_only=True,
    risk="Tried with two processes and replicated weights (DDP).",
)
