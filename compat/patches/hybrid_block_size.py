"""vLLM 0.24's connector takes one block size for all layers; hybrid models have several."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Symptom

CONNECTOR = "vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector"


def probe(site: Path) -> Probe:
    connector = source.module(site, CONNECTOR)
    if "_get_cache_block_size" in connector.text:
        return Probe(False, f"{connector.file} asks for the block size of the group that it reads")
    if "block_offsets = torch.arange(0, self._block_size" not in connector.text:
        return Probe(False, f"{connector.file} is told where a request's slots are")
    return Probe(True, f"{connector.file} rebuilds slots from the global block size")


PATCH = Patch(
    id="hybrid-block-size",
    drift="D26",
    title="Hidden states of hybrid models are read from the wrong slots",
    speculators=">=0.5.0",
    vllm="==0.24.*",
    symptoms=(Symptom("RuntimeError", message=r"CUDA error: device-side assert", functions=("get_finished",)),),
    cause="The connector rebuilds the slots of a request from the global block size. Hybrid (Mamba) models keep hidden "
    "states in a group with another one: the states come out all zero or not finite, and training on them converges.",
    mend="Use vLLM 0.25 or later.",
    probe=probe,
    silent=True,
    gate="finite",
    references=("vllm-project/speculators#613", "vllm-project/vllm#46301", "vllm-project/vllm#45734"),
)
