"""Gate `aux-layers`: each captured layer is the layer it is named for.

Compared with a hooked reference forward where the target fits, by its names otherwise. vLLM's id k means the input of
layer k, which is the output of layer k - 1. An off-by-one hardly shows in the acceptance of a tiny draft model, and
ruins that of a real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.gates.report import GateReport, failed, passed

GATE = "aux-layers"


def check(states: Any, reference: Any, ids: Sequence[int], normed: Any = None) -> GateReport:
    """`states` [S, L, H] were captured as the vLLM ids `ids`; `reference` [S, N + 1, H] holds the input of every layer
    of the target and the last one's output, so its index is vLLM's id. `normed` [S, H] is that output behind the final
    norm."""
    import torch

    total = reference.shape[1] - 1
    known = reference if normed is None else torch.cat([reference.float(), normed.float().unsqueeze(1)], dim=1)
    nearest = [_nearest(states[:, place], known) for place in range(len(ids))]
    if ids[-1] == total and nearest[-1] > total:
        return failed(
            GATE, "norm twice", f"The last captured layer, vLLM's id {total}, has the final norm in it already."
        )
    wrong = [(asked, found) for asked, found in zip(ids, nearest, strict=True) if asked != found]
    if not wrong:
        return passed(GATE, f"The {len(ids)} captured layers are vLLM's ids {list(ids)}.")
    distances = {found - asked for asked, found in wrong}
    told = ", ".join(f"{found} in the place of {asked}" for asked, found in wrong)
    if len(distances) == 1 and len(wrong) >= min(len(ids), 3):
        by = distances.pop()
        return failed(
            GATE, "wrong layer", f"The layers are {abs(by)} too {'late' if by > 0 else 'early'} (vLLM's ids): {told}."
        )
    return failed(GATE, "wrong layer", f"Other layers were captured than asked for (vLLM's ids): {told}.")


def check_names(
    ids: Sequence[int], outputs: Sequence[int], total: int, served: Sequence[int] | None = None
) -> GateReport:
    """`ids` (vLLM's) and `outputs` (indices of layer outputs) name the captured layers of a target of `total` layers.

    `served` are the ids that the draft model's config tells the engine; None when it tells none, so that the engine
    takes its default.
    """
    if [i - 1 for i in ids] != list(outputs):
        return failed(
            GATE,
            "wrong layer",
            f"The names disagree: vLLM's ids {list(ids)} are outputs {[i - 1 for i in ids]}, not {list(outputs)}.",
        )
    if not ids or ids[-1] != total:
        return failed(
            GATE,
            "wrong layer",
            f"The last captured layer is id {list(ids)[-1:]}, and the target's last output is {total}.",
        )
    default = [2, total // 2, total - 3]
    expected, whose = (default, "takes by default") if served is None else (list(served), "is told to take")
    if list(ids[:-1]) != expected:
        return failed(
            GATE,
            "wrong layer",
            f"The draft model was given vLLM's ids {list(ids[:-1])}, and the serving engine {whose} {expected}.",
        )
    return passed(GATE, f"The captured layers are vLLM's ids {list(ids)}, and the serving engine {whose} {expected}.")


def _nearest(captured: Any, reference: Any) -> int:
    differences = (reference.float() - captured.float().unsqueeze(1)).pow(2).mean((0, 2))
    return int(differences.argmin())
