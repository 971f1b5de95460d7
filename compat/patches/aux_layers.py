"""speculators' default layers are one too late for a draft model that vLLM serves."""

from __future__ import annotations

import ast
from pathlib import Path

from compat import source
from compat.patch import Patch, Probe
from compat.replace import GENERATOR

CALLER = f"{GENERATOR}.VllmHiddenStatesGenerator.__init__"
DEFAULT = "[2, num_layers // 2, num_layers - 3, num_layers - 1]"


def probe(site: Path) -> Probe:
    caller = source.find(site, CALLER)
    found = [n for n in ast.walk(caller.node) if isinstance(n, ast.List) and ast.unparse(n) == DEFAULT]
    if not found:
        return Probe(False, f"{caller.place} has another default")
    return Probe(True, f"{caller.at(found[0])} captures the outputs of layers of which vLLM serves the inputs")


PATCH = Patch(
    id="aux-layers",
    drift="",
    title="Default aux layers are off by one against serving",
    speculators=">=0.3.0,<0.5.0",
    vllm=">=0.11.0",
    cause=f"The generator captures the *outputs* of its default layers {DEFAULT}; vLLM's ids (2, n // 2, n - 3) mean "
    "the *inputs*, which are the outputs one layer earlier. A draft model trained on the one and served with the other "
    "hardly ever guesses right (about 10 % instead of 45 % at the first position).",
    mend="Never leave layer_ids to the generator. `extract` passes [1, n // 2 - 1, n - 4, n - 1] and writes both "
    "conventions into the manifest, by name.",
    probe=probe,
    replaces=CALLER,
    silent=True,
    gate="aux-layers",
    references=("vllm-project/vllm#43671", "vllm-project/vllm#50170", "vllm-project/speculators#1065"),
)
