"""A plain forward of transformers in 32-bit floats, hooked at every layer, on the first tokens of a few samples."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import space
from pipeline.dataset import Sample
from pipeline.gates import aux_layers, rotary
from pipeline.gates.report import GateReport
from pipeline.layers import Layers
from pipeline.report import StageError

log = logging.getLogger("pipeline.verify")
SAMPLES, TOKENS = 3, 128
"""Samples that are run, and tokens of each from its first on: later ones cannot change them."""
SHARE = 0.4
"""Of the free memory that the target may take in 32-bit floats."""


@dataclass(frozen=True)
class Room:
    """Whether a second, plain copy of the target fits beside what else runs on the host."""

    needed: int
    free: int

    @property
    def fits(self) -> bool:
        return self.needed <= SHARE * self.free

    @property
    def told(self) -> str:
        return (
            f"the target takes {space.told(self.needed)} in 32-bit floats, and {SHARE:.0%} of the "
            f"{space.told(self.free)} of free memory may be used"
        )


def room(target: Path) -> Room:
    """Free memory of the GPU where there is one, else of the host."""
    import torch

    needed = sum(_wide_bytes(shard) for shard in target.glob("*.safetensors"))
    if torch.cuda.is_available():
        return Room(needed, int(torch.cuda.mem_get_info()[0]))
    meminfo = Path("/proc/meminfo").read_text(encoding="utf-8")
    kib = next(line.split()[1] for line in meminfo.splitlines() if line.startswith("MemAvailable:"))
    return Room(needed, 1024 * int(kib))


def check(
    target: Path,
    layers: Layers,
    samples: Sequence[Sample],
    stored: Mapping[int, Any],
    norm: Callable[[Any], Any] | None,
    least: float,
) -> tuple[list[GateReport], str]:
    """(reports, why there are none). `stored` are states [S, L, H] by index of the sample; `norm` is the target's final
    one, where it is of a known kind; `least` is the error that the form of the states allows."""
    from pipeline.engine import forward

    chosen = sorted((s for s in samples if s.index in stored), key=lambda s: -len(s.token_ids))[:SAMPLES]
    chosen = [sample for sample in chosen if len(sample.token_ids) > 1]
    try:
        engine = forward.Engine(target, range(-1, layers.vllm_ids[-1]), TOKENS, dtype="float32")
    except Exception as error:  # of transformers, about a target that it does not know
        log.info("No reference forward.", exc_info=True)
        reason = str(error).strip().splitlines()
        return [], f"transformers does not load the target ({reason[0] if reason else type(error).__name__})"
    reports: list[GateReport] = []
    with engine:
        for sample in chosen:
            (reference,) = engine.generate([sample.token_ids[:TOKENS]])  # [S, N + 1, H]: its index is vLLM's id
            found = stored[sample.index][:TOKENS]
            for report in (
                aux_layers.check(found, reference, layers.vllm_ids, norm and norm(reference[:, -1].float())),
                rotary.check(found, reference[:, list(layers.vllm_ids)], least),
            ):
                reports.append(
                    GateReport(report.gate, report.passed, report.fault, f"Sample {sample.index}: {report.sentence}")
                )
    return reports, "" if chosen else "no sample has two tokens"


def _wide_bytes(shard: Path) -> int:
    """Bytes of a shard's tensors as 32-bit floats."""
    import json
    import math

    with shard.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    try:
        return sum(4 * math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
    except (KeyError, TypeError) as error:
        raise StageError(f"The shard {shard} has no readable header; copy that file again from its source.") from error
