"""speculators sizes the KV cache from CUDA's free memory, which a CPU host does not have."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.environment import installed
from compat.patch import Patch, Probe, Symptom
from compat.replace import GENERATOR
from compat.versions import is_cpu_build

CALLER = f"{GENERATOR}.VllmHiddenStatesGenerator.__init__"
REPLACES = "torch.cuda.memory.mem_get_info"
WRITTEN_FOR = ("91657c1a732f90e85b23cbe1dba4af818880132acab150884f7333cfe0626686",)


def probe(site: Path) -> Probe:
    caller = source.find(site, CALLER)
    asks = source.calls(caller, "torch.cuda.mem_get_info")
    if not asks:
        return Probe(False, f"{caller.place} does not ask CUDA for its free memory")
    if not is_cpu_build(installed(site)):
        return Probe(False, "the installed vLLM is no CPU build")
    return Probe(True, f"{caller.at(asks[0])} asks CUDA for free memory, and the installed vLLM is a CPU build")


def apply() -> None:
    import torch

    def mem_get_info(device: object = None) -> tuple[int, int]:
        from vllm.platforms import current_platform

        space = current_platform.get_device_total_memory()  # of the CPU platform: VLLM_CPU_KVCACHE_SPACE
        return space, space

    torch.cuda.mem_get_info = mem_get_info


PATCH = Patch(
    id="cuda-memory-info",
    drift="",
    title="KV cache size is taken from CUDA on a CPU host",
    speculators="==0.3.0",
    vllm=">=0.11.0",
    symptoms=(
        Symptom("RuntimeError", message=r"Found no NVIDIA driver", functions=("mem_get_info",)),
        Symptom("AssertionError", message=r"Torch not compiled with CUDA enabled", functions=("mem_get_info",)),
    ),
    cause="The generator calls torch.cuda.mem_get_info() whatever the device; not a change of vLLM's.",
    mend="Reports the CPU platform's own KV cache space (VLLM_CPU_KVCACHE_SPACE) as the free memory.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    risk="Any other code of the stage's process that asks CUDA for memory gets the same answer.",
    references=(),
    cpu_only=True,
    written_for=WRITTEN_FOR,
)
