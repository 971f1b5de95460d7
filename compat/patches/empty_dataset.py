"""speculators logs a warning for each conversation that it cannot tokenize, and goes on without it."""

from __future__ import annotations

import ast
from pathlib import Path

from compat import source
from compat.patch import Patch, Probe

CALLER = "speculators.data_generation.preprocessing._preprocess_batch"


def probe(site: Path) -> Probe:
    caller = source.find(site, CALLER)
    for node in ast.walk(caller.node):
        passes = isinstance(node, ast.ExceptHandler) and isinstance(node.body[-1], ast.Continue)
        if passes and "return_offsets_mapping" in caller.text:
            return Probe(True, f"{caller.at(node)} passes over every conversation whose tokenizer gives no offsets")
    return Probe(False, f"{caller.place} fails when a conversation cannot be tokenized")


PATCH = Patch(
    id="empty-dataset",
    drift="",
    title="A slow tokenizer leads to an empty data set",
    speculators=">=0.3.0,<0.5.0",
    vllm=">=0.11.0",
    architectures=("KimiK25ForConditionalGeneration",),
    cause="The loss mask needs return_offsets_mapping, which slow tokenizers such as Kimi's do not have. Each row "
    "raises, and the error is logged and passed over: the data set is empty, and nothing fails.",
    mend="Prepare the data with `prepare`, which needs no offsets and fails when samples are lost.",
    probe=probe,
    replaces=CALLER,
    silent=True,
    gate="dataset",
)
