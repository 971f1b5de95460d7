"""Gate `engine-norms`: the serving engine applies every norm that the draft model was trained with.

Newer trainers add norms that older engines do not know: the draft loads, and is hardly ever right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compat import source
from pipeline.gates.report import GateReport, failed, passed

GATE = "engine-norms"
NORMS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
"""Settings of a draft model's config, each of which is a norm of its own."""
READERS = ("vllm.transformers_utils.configs.speculators.algos", "vllm.model_executor.models.llama_eagle3")
"""What vLLM reads them with: a setting must come through the first into the second."""


def engine_sources(site: Path) -> dict[str, str]:
    """Text of the engine's readers, by their place in `site`, an environment's site-packages.

    Raises compat.source.SourceNotFound where there is no vLLM that serves EAGLE-3 draft models.
    """
    modules = [source.module(site, name) for name in READERS]
    return {module.file: module.text for module in modules}


def check(draft: Mapping[str, Any], engine: Mapping[str, str]) -> GateReport:
    """`draft` is the draft model's config.json; `engine` is what `engine_sources` gave."""
    asked = [name for name in NORMS if draft.get(name)]
    ignored = {name: place for name in asked for place, text in engine.items() if not _reads(text, name)}
    if ignored:
        told = ", ".join(f"{name} ({place} does not read it)" for name, place in ignored.items())
        return failed(GATE, "norms ignored", f"The serving engine ignores {len(ignored)} of the draft's norms: {told}.")
    return passed(GATE, f"The serving engine reads all of the draft's norms: {', '.join(asked) or 'it has none'}.")


def _reads(text: str, name: str) -> bool:
    return re.search(rf"""["']{name}["']""", text) is not None
