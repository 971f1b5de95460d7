"""Stage `extract`: hidden states of every sample, through whichever backend the environment offers."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compat import record
from pipeline import (
    dataset,
    extracting,
    model_folder,
    origin,
    prepared,
    products,
    scratch,
    settings,
    sharding,
    space,
    stages,
)
from pipeline.dataset import Sample
from pipeline.engine import backend
from pipeline.engine.driver import activate_driver
from pipeline.extracting import Batch
from pipeline.layers import Layers
from pipeline.report import Pace, StageError, artifact, attempt, metric, note, progress
from pipeline.settings import Settings
from pipeline.store import MANIFEST, Store


def main() -> None:
    wanted = settings.of_attempt()
    share = wanted.extract
    samples = dataset.read(products.dataset())
    target = products.target(wanted)
    model_folder.require(target)
    prepared.require(wanted, target, products.dataset())
    layers = origin.layers(wanted, target)
    store = Store(_folder(share.folder), origin.of(wanted, target))
    every = extracting.batches(samples, wanted.batch_size)
    numbers = [number for number in range(len(every)) if share.rank_of(number) == share.rank]
    mine = [sample for number in numbers for sample in every[number]]
    with scratch.claim(store.folder, f"rank {share.rank} of {share.world_size}"):
        checking = Pace("checking samples on disk", len(mine), "samples")
        missing = {sample.index for sample in store.missing(mine, checking.step)}
        artifact(store.folder / MANIFEST)
        if not missing:
            note(f"All {len(mine)} samples are on disk and valid; nothing to extract.")
            return
        for fault, count in store.condemned().items():
            note(f"{count} samples are extracted again: verify condemned them ({fault}).")
        if len(missing) < len(mine):
            note(f"{len(mine) - len(missing)} of {len(mine)} samples are on disk and valid; doing the others.")
        space.require(store.folder, _bytes(wanted, target, layers, [s for s in mine if s.index in missing]))
        chosen = backend.choose(wanted.backend, endpoint=share.endpoint)
        note(f"Backend {chosen}{f', served at {share.endpoint}' if share.endpoint else ''}.")
        todo = [number for number in numbers if any(sample.index in missing for sample in every[number])]
        telling = Telling(mine, missing, min(share.engines, len(todo)))
        if telling.engines == 1:
            activate_driver()
            batches: list[Batch] = [every[number] for number in todo]

            def begin() -> None:
                store.begin(attempt(), chosen, record.active_patches())  # the workers have reported by now

            extracting.run(wanted, chosen, target, layers, store, batches, missing, telling, begin)
        else:
            _side_by_side(wanted, chosen, telling, todo, missing)
    telling.sum_up()


class Telling:
    """Turns what engines say into the stage's progress and figures."""

    def __init__(self, samples: Sequence[Sample], missing: set[int], engines: int) -> None:
        self.engines = engines
        self._tokens_of = {sample.index: len(sample.token_ids) for sample in samples}
        self._missing = missing
        self._lock = threading.Lock()
        self._ready = 0
        self._tokens = 0
        self._pace: Pace | None = None
        self._seconds = 0.0
        """From the first engine's start to the last sample that was saved."""
        progress("loading the target", 0, engines if engines > 1 else None, "engines" if engines > 1 else "")

    def ready(self, seconds: float) -> None:
        with self._lock:
            self._ready += 1
            metric("engine_ready_s", round(seconds, 1))
            if self.engines > 1:
                progress("loading the target", self._ready, self.engines, "engines")
            if self._pace is None:  # from the first engine on: the others work too before long
                done = len(self._tokens_of) - len(self._missing)
                self._pace = Pace("extracting", len(self._tokens_of), "samples", done=done)

    def saved(self, samples: Sequence[Sample]) -> None:
        self._count([sample.index for sample in samples])

    def heard(self, engine: int, line: Mapping[str, Any]) -> None:
        if "ready" in line:
            self.ready(float(line["ready"]))
        else:
            self._count(line["saved"])

    def sum_up(self) -> None:
        assert self._pace is not None
        metric("tokens", self._tokens)
        rate = self._tokens / max(self._seconds, 1e-9)  # the engine's end is not the samples' affair
        note(f"{len(self._missing)} samples, {self._tokens} tokens, {rate:.0f} tokens a second.")

    def _count(self, saved: Sequence[int]) -> None:
        with self._lock:
            assert self._pace is not None
            self._tokens += sum(self._tokens_of[index] for index in saved)
            self._pace.step(len(saved))
            self._seconds = self._pace.seconds
            metric("tokens_per_s", round(self._tokens / self._seconds, 1))


def _side_by_side(wanted: Settings, chosen: str, telling: Telling, todo: Sequence[int], missing: set[int]) -> None:
    count = telling.engines
    shares = [
        {"batches": list(todo[n::count]), "missing": sorted(missing), "backend": chosen, "engine": n}
        for n in range(count)
    ]
    sharding.run(shares, sharding.environments(count, wanted.tensor_parallel, stages.has_gpu()), telling)


def _bytes(wanted: Settings, target: Path, layers: Layers, samples: Sequence[Sample]) -> int:
    """What these samples take on the disk, but for headers."""
    each = {"full": 4 if wanted.dtype == "float32" else 2, "fp8": 1}[wanted.extract.states]
    row = len(layers.vllm_ids) * int(origin.text_config(target)["hidden_size"]) * each
    return row * sum(len(sample.token_ids) for sample in samples)


def _folder(shared: str) -> Path:
    """The products' folder of hidden states; a link where `stage.extract.folder` says that they lie elsewhere."""
    folder = products.hidden_states()
    if not shared:
        return folder
    place = Path(shared)
    if folder.is_symlink() and folder.resolve() != place.resolve():
        folder.unlink()
    if folder.exists() and not folder.is_symlink():
        raise StageError(
            f"{folder} holds hidden states already, and stage.extract.folder names {place}. Move them there, or take "
            "the setting out, and relaunch the stage."
        )
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StageError(
            f"The folder {place}, which stage.extract.folder names, cannot be made ({error.strerror}); correct it."
        ) from error
    if not folder.is_symlink():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.symlink_to(place)
    return folder
