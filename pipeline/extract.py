"""Stage `extract`: hidden states of every sample, through speculators' generator on vLLM."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from compat import record
from compat.activate import activate
from compat.switches import VARIABLE, parse
from pipeline import dataset, identity, products, settings
from pipeline.dataset import Sample
from pipeline.layers import Layers, choose
from pipeline.report import Pace, artifact, metric, note, progress
from pipeline.settings import Settings
from pipeline.store import MANIFEST, Store


def main() -> None:
    wanted = settings.of_attempt()
    samples = dataset.read(products.dataset())
    target = products.target(wanted)
    layers = choose(_total_layers(target), wanted.layers)
    origin = {"target": identity.digest(target), "layers": layers.to_json(), "dtype": wanted.dtype}
    store = Store(products.hidden_states(), origin)
    checking = Pace("checking samples on disk", len(samples), "samples")
    missing = store.missing(samples, checking.step)
    artifact(store.folder / MANIFEST)
    if not missing:
        note(f"All {len(samples)} samples are on disk and valid; nothing to extract.")
        return
    if len(missing) < len(samples):
        note(f"{len(samples) - len(missing)} of {len(samples)} samples are on disk and valid; doing the others.")
    activate("driver", parse(os.environ.get(VARIABLE, "")), lambda applied: record.patch(applied, "driver"))
    _extract(wanted, target, layers, store, missing, len(samples))


def _extract(wanted: Settings, target: Path, layers: Layers, store: Store, missing: list[Sample], total: int) -> None:
    from pipeline.engine.hidden_states import Engine

    progress("loading the target", 0, None)
    started = time.monotonic()
    with Engine(target, layers.output_indices, wanted.max_length, wanted.tensor_parallel, wanted.dtype) as engine:
        metric("engine_ready_s", round(time.monotonic() - started, 1))
        store.begin(_attempt(), record.active_patches())  # the workers have reported by now
        pace = Pace("extracting", total, "samples", done=total - len(missing))
        tokens = 0
        for start in range(0, len(missing), wanted.batch_size):
            batch = missing[start : start + wanted.batch_size]
            for sample, states in zip(batch, engine.generate([s.token_ids for s in batch]), strict=True):
                store.save(sample, _file(sample, states), len(sample.token_ids))
                tokens += len(sample.token_ids)
                pace.step()
            metric("tokens_per_s", round(tokens / pace.seconds, 1))
    metric("tokens", tokens)
    note(f"{len(missing)} samples, {tokens} tokens, {tokens / pace.seconds:.0f} tokens a second.")


def _file(sample: Sample, states: Any) -> bytes:
    import torch
    from safetensors.torch import save

    tensors = {"hidden_states": states.contiguous(), "token_ids": torch.tensor(sample.token_ids, dtype=torch.int64)}
    return bytes(save(tensors))


def _total_layers(target: Path) -> int:
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    return int((config.get("text_config") or config)["num_hidden_layers"])


def _attempt() -> str:
    """`RUN/STAGE/N`."""
    return "/".join(Path(os.environ[record.ATTEMPT]).parts[-3:])
