"""Gate `rows`: one row of hidden states for each token, in every captured layer, for the tokens of the data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.gates.report import GateReport, failed, passed

GATE = "rows"


def check(states: Any, stored_ids: Sequence[int], wanted_ids: Sequence[int], layers: int) -> GateReport:
    """`states` [S, L, H] and `stored_ids` are a sample's file; `wanted_ids` are the data set's tokens of it."""
    shape = tuple(states.shape)
    if len(shape) != 3:
        return failed(GATE, "wrong shape", f"The hidden states have shape {shape}, not [tokens, layers, size].")
    rows, found_layers, _ = shape
    tokens = len(wanted_ids)
    if rows < tokens:
        return failed(
            GATE, "rows missing", f"{rows} rows of hidden states for {tokens} tokens: {tokens - rows} are missing."
        )
    if rows > tokens:
        return failed(
            GATE, "rows too many", f"{rows} rows of hidden states for {tokens} tokens: {rows - tokens} too many."
        )
    if found_layers != layers:
        return failed(GATE, "layers missing", f"{found_layers} layers were captured, and {layers} were asked for.")
    if list(stored_ids) != list(wanted_ids):
        pairs = zip(stored_ids, wanted_ids, strict=False)
        first = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(stored_ids), tokens))
        return failed(
            GATE, "other tokens", f"The file is of other tokens than the data set: they differ from token {first} on."
        )
    return passed(GATE, f"{rows} rows in {layers} layers for {tokens} tokens.")
