"""Which layers are captured, in both conventions, by name.

vLLM's id k means the *input* of decoder layer k, which is the output of layer k - 1 (0-based); a served EAGLE-3 draft
model is fed by those. speculators 0.3.0's generator takes indices of layer *outputs*, and its own default
[2, n // 2, n - 3, n - 1] is one too late for serving. So the default here captures the outputs [1, n // 2 - 1, n - 4],
which are vLLM's (2, n // 2, n - 3), and the output of the last layer, n - 1, before the final norm.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.problem import Problem


@dataclass(frozen=True)
class Layers:
    """The captured layers, in the order in which they lie in a sample: the aux layers, then the last."""

    vllm_ids: tuple[int, ...]
    """Ends with n: the input of the (not existing) layer n is the last layer's output."""

    @property
    def output_indices(self) -> tuple[int, ...]:
        """The same layers as speculators' generator names them."""
        return tuple(i - 1 for i in self.vllm_ids)

    def to_json(self) -> dict[str, list[int]]:
        return {"vllm_ids": list(self.vllm_ids), "output_indices": list(self.output_indices)}


def choose(total: int, wanted: tuple[int, ...] | None) -> Layers:
    """Layers for a target of `total` decoder layers. Raises Problem (bad_settings)."""
    aux = wanted or (2, total // 2, total - 3)
    if wanted is None and not 1 <= aux[0] < aux[1] < aux[2] < total:
        raise Problem(
            "bad_settings",
            f"The target has {total} layers, too few for the default aux layers {list(aux)}.",
            "Name three aux layers in run.layers.",
        )
    if aux[-1] >= total:
        raise Problem(
            "bad_settings",
            f"run.layers names {aux[-1]}, and the target has {total} layers.",
            f"Name layers from 1 to {total - 1}; the last layer's output is always captured besides.",
        )
    return Layers((*aux, total))
