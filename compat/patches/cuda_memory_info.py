"""speculators sizes the KV cache from an accelerator's free memory, which a CPU host does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compat import source
from compat.environment import installed
from compat.patch import Patch, Probe, Symptom
from compat.replace import GENERATOR, generator_module
from compat.versions import is_cpu_build

REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator.__init__"
WRITTEN_FOR = (
    "645fe509445cbb697326d36fe9fa17afcda7018e96de1ca211a7397c42b6126f",  # 0.3.0
    "631a3d8bcdbedaf0cac8c2dbc86a81d524a1bc8af6b370f1343b46aef0f271ba",  # 0.4
)


def probe(site: Path) -> Probe:
    caller = source.find(site, REPLACES)
    asks = [*source.calls(caller, "torch.cuda.mem_get_info"), *source.calls(caller, "mem_get_info")]
    if not asks:
        return Probe(False, f"{caller.place} does not ask an accelerator for its free memory")
    if not is_cpu_build(installed(site)):
        return Probe(False, "the installed vLLM is no CPU build")
    return Probe(True, f"{caller.at(asks[0])} asks an accelerator for memory, and the installed vLLM is a CPU build")


def apply() -> None:
    _asked().mem_get_info = _space


def verify() -> str:
    free = _asked().mem_get_info()[0]
    return "" if free > 0 else f"the generator is told of {free} bytes of free memory"


def _asked() -> Any:
    """Where the generator looks mem_get_info up: 0.4 has a function of its own, 0.3.0 calls torch.cuda's."""
    module = generator_module()
    return module if hasattr(module, "mem_get_info") else module.torch.cuda


def _space(device: object = None) -> tuple[int, int]:
    from vllm.platforms import current_platform

    space = current_platform.get_device_total_memory()  # of the CPU platform: VLLM_CPU_KVCACHE_SPACE
    return space, space


PATCH = Patch(
    id="cuda-memory-info",
    drift="",
    title="KV cache size is taken from an accelerator on a CPU host",
    speculators=">=0.3.0,<0.5.0",
    vllm=">=0.11.0",
    symptoms=(
        Symptom("RuntimeError", message=r"Found no NVIDIA driver", functions=("mem_get_info",)),
        Symptom("AssertionError", message=r"Torch not compiled with CUDA enabled", functions=("mem_get_info",)),
        Symptom("AssertionError", source=r"num_gpu_blocks > 0", innermost="__init__"),
    ),
    cause="0.3.0 calls torch.cuda.mem_get_info() whatever the device. 0.4 asks the accelerator that torch was built "
    "for, and takes 0 bytes, no KV cache at all, where torch was built for none. Not a change of vLLM's.",
    mend="Reports the CPU platform's own KV cache space (VLLM_CPU_KVCACHE_SPACE) as the free memory.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    risk="With 0.3.0, any other code of the stage's process that asks CUDA for memory gets the same answer.",
    cpu_only=True,
    written_for=WRITTEN_FOR,
)
