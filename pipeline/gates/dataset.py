"""Gate `dataset`: the conversations became samples to learn from.

A tokenizer without an offset mapping makes speculators 0.3.0 skip every conversation with a warning: the data set is
empty, and nothing failed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.gates.report import GateReport, failed, passed

GATE = "dataset"
LEAST = 0.5
"""Share of the conversations that must become samples."""


def check(conversations: int, masks: Sequence[Sequence[int]], least: float = LEAST) -> GateReport:
    """`masks` are the loss masks of the samples that were made of so many conversations."""
    if not masks:
        return failed(GATE, "empty data set", f"{conversations} conversations became no sample at all.")
    learnt = sum(1 for mask in masks if any(mask))
    if not learnt:
        return failed(GATE, "empty masks", f"All {len(masks)} samples have a loss mask of nothing but zeros.")
    if learnt < least * conversations:
        return failed(
            GATE,
            "conversations lost",
            f"{learnt} of {conversations} conversations became samples with tokens to learn from; {least:.0%} must.",
        )
    tokens = sum(map(sum, masks))
    return passed(GATE, f"{learnt} of {conversations} conversations became samples, {tokens} tokens to learn from.")
