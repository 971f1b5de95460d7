"""Stage `extract`: hidden states of every sample, through whichever backend the environment offers."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from compat import record
from compat.activate import activate
from compat.switches import VARIABLE, parse
from pipeline import dataset, origin, products, settings, space
from pipeline.dataset import Sample
from pipeline.engine import backend
from pipeline.layers import Layers
from pipeline.report import Pace, artifact, metric, note, progress
from pipeline.settings import Settings
from pipeline.store import MANIFEST, Store
from pipeline.writing import Writer


def main() -> None:
    wanted = settings.of_attempt()
    samples = dataset.read(products.dataset())
    target = products.target(wanted)
    model = origin.text_config(target)
    layers = origin.layers(wanted, target)
    store = Store(products.hidden_states(), origin.of(wanted, target))
    checking = Pace("checking samples on disk", len(samples), "samples")
    missing = {sample.index for sample in store.missing(samples, checking.step)}
    artifact(store.folder / MANIFEST)
    if not missing:
        note(f"All {len(samples)} samples are on disk and valid; nothing to extract.")
        return
    for fault, count in store.condemned().items():
        note(f"{count} samples are extracted again: verify condemned them ({fault}).")
    if len(missing) < len(samples):
        note(f"{len(samples) - len(missing)} of {len(samples)} samples are on disk and valid; doing the others.")
    row = len(layers.vllm_ids) * int(model["hidden_size"]) * (4 if wanted.dtype == "float32" else 2)
    space.require(store.folder, row * sum(len(s.token_ids) for s in samples if s.index in missing))
    chosen = backend.choose(wanted.backend)
    note(f"Backend {chosen}.")
    activate("driver", parse(os.environ.get(VARIABLE, "")), lambda applied: record.patch(applied, "driver"))
    _extract(wanted, chosen, target, layers, store, samples, missing)


def _extract(
    wanted: Settings,
    chosen: str,
    target: Path,
    layers: Layers,
    store: Store,
    samples: list[Sample],
    missing: set[int],
) -> None:
    scratch = store.folder / ".scratch"
    shutil.rmtree(scratch, ignore_errors=True)  # of an attempt that was killed
    scratch.mkdir()
    progress("loading the target", 0, None)
    started = time.monotonic()
    with backend.engine(
        chosen, target, layers, wanted.max_length, wanted.tensor_parallel, wanted.dtype, scratch
    ) as engine:
        metric("engine_ready_s", round(time.monotonic() - started, 1))
        store.begin(_attempt(), chosen, record.active_patches())  # the workers have reported by now
        pace = Pace("extracting", len(samples), "samples", done=len(samples) - len(missing))
        tokens = 0
        with Writer(store, pace.step) as writer:
            for start in range(0, len(samples), wanted.batch_size):
                # A batch is the same samples in every attempt, so that a resumed data set is the same to the bit.
                batch = samples[start : start + wanted.batch_size]
                if missing.isdisjoint(sample.index for sample in batch):
                    continue
                for sample, states in zip(batch, engine.generate([s.token_ids for s in batch]), strict=True):
                    if sample.index in missing:
                        writer.put(sample, states)
                        tokens += len(sample.token_ids)
                metric("tokens_per_s", round(tokens / pace.seconds, 1))
    scratch.rmdir()
    metric("tokens", tokens)
    note(f"{len(missing)} samples, {tokens} tokens, {tokens / pace.seconds:.0f} tokens a second.")


def _attempt() -> str:
    """`RUN/STAGE/N`."""
    return "/".join(Path(os.environ[record.ATTEMPT]).parts[-3:])
