"""speculators 0.3.0 trains against logits that the target would never give: its final norm is left out."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.patch import Patch, Probe

CALLER = "speculators.models.eagle3.core.Eagle3DraftModel.forward"


def probe(site: Path) -> Probe:
    caller = source.find(site, CALLER)
    targets = source.calls(caller, "self.verifier_lm_head")
    if not targets or "verifier_norm" in caller.text:
        return Probe(False, f"{caller.place} applies the target's final norm")
    return Probe(True, f"{caller.at(targets[0])} takes logits from the last layer's output without the final norm")


PATCH = Patch(
    id="target-norm",
    drift="",
    title="Target logits are computed without the final norm",
    speculators="==0.3.0",
    vllm=">=0.11.0",
    cause="The last captured layer is taken before the target's final norm, and the trainer computes targets as "
    "lm_head(h). speculators 0.4.0 put the norm in; gpt-oss-20b went from 25 % to 40 % acceptance by it.",
    mend="Train with speculators 0.4 or later; `verify` compares lm_head(norm(h)) of what was extracted with the "
    "engine.",
    probe=probe,
    replaces=CALLER,
    silent=True,
    gate="final-norm",
    references=("vllm-project/speculators#313",),
)
