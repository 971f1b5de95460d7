"""Gate `origin`: the hidden states were made by this target, tokenizer and settings, and name their layers truly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.gates.report import GateReport, failed, passed
from pipeline.manifest import UNSAID

GATE = "origin"


def check(entry: Mapping[str, Any], wanted: Mapping[str, Any]) -> GateReport:
    """`entry` is a line of the manifest, `wanted` what `pipeline.origin.of` says of the run."""
    layers = entry.get("layers") or {}
    ids, outputs = list(layers.get("vllm_ids", ())), list(layers.get("output_indices", ()))
    if [k - 1 for k in ids] != outputs:
        return failed(
            GATE,
            "wrong layer",
            f"The manifest names the layers differently in its two conventions: vLLM's ids {ids} are the outputs "
            f"{[k - 1 for k in ids]}, not {outputs}.",
        )
    for key, value in wanted.items():
        found = entry.get(key, UNSAID.get(key))
        if found != value:
            shown = [one[:12] + "…" if isinstance(one, str) and len(one) > 40 else one for one in (found, value)]
            fault = "wrong layer" if key == "layers" else f"other {key}"
            return failed(GATE, fault, f"The manifest says {key} {shown[0]}, and the run's is {shown[1]}.")
    return passed(GATE, f"Target, tokenizer and settings are the run's; the layers are vLLM's ids {ids}.")
