"""vLLM's own hidden-states connector copies into pinned memory, which torch has no backend for on a CPU host."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Symptom

ID = "cpu-pinned-memory"
MODULE = "vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector"
REPLACES = f"{MODULE}.ExampleHiddenStatesConnector._submit_async_write"
WRITTEN_FOR = (
    "319e78e9277e8ebc789181d524ae9bf3d988d22fd6f4825f1fc767e7010359f9",
    "b1adf9bef26e64f4722d20dde4eca432b05d3ef07ba325109d348e38fc8f45cb",
)


def probe(site: Path) -> Probe:
    writer = source.find(site, REPLACES)
    for call in source.calls(writer, "torch.empty_like"):
        pinned = {k.arg: ast.unparse(k.value) for k in call.keywords}.get("pin_memory")
        if pinned == "True":
            return Probe(True, f"{writer.at(call)} asks for pinned memory, whatever the device")
    return Probe(False, f"{writer.place} does not insist on pinned memory")


class _Torch:
    """The connector's view of torch: `empty_like` gives pageable memory, everything else is torch's own."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def empty_like(self, *args: Any, pin_memory: bool = False, **given: Any) -> Any:
        return self._torch.empty_like(*args, **given)


def apply() -> None:
    module = importlib.import_module(MODULE)
    vars(module)["torch"] = _Torch(module.torch)


def verify() -> str:
    """Asks for pinned memory as the connector does."""
    torch = importlib.import_module(MODULE).torch
    made = torch.empty_like(torch.zeros(1), device="cpu", pin_memory=True)
    return "" if tuple(made.shape) == (1,) else "the connector's buffer has another shape than was asked for"


PATCH = Patch(
    id=ID,
    drift="D31",
    title="The hidden-states connector asks for pinned memory on a CPU host",
    speculators=">=0.5.0",
    vllm=">=0.24.0",
    cause="ExampleHiddenStatesConnector copies each request's states into a buffer made with pin_memory=True. Without "
    "an accelerator torch raises in the worker, and the caller only sees EngineDeadError.",
    mend="Gives the connector ordinary memory in the place of pinned memory; there is no device to copy from.",
    probe=probe,
    apply=apply,
    verify=verify,
    where="worker",
    after=MODULE,
    replaces=REPLACES,
    written_for=WRITTEN_FOR,
    symptoms=(
        Symptom(
            "RuntimeError",
            message=r"pin_memory=True requires a CUDA or other accelerator backend",
            functions=("_submit_async_write",),
        ),
    ),
    cpu_only=True,
    risk="None: pinned memory only speeds up copies from a device. Run on vLLM 0.32.0, read in 0.24.0 to 0.29.0.",
)
