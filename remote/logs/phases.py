"""What each worker is doing: a bar at 100 % has read its files, the work behind it goes on."""

from __future__ import annotations

import re

from remote.logs.findings import Phase, Progress

MAX_WORKERS = 256

LOADERS = frozenset(
    {
        "safetensors_shards",
        "multithread_shards",
        "pt_shards",
        "np_cache_shards",
        "fastsafetensors_shards",
        "instanttensor_shards",
        "runai_streamer",
    }
)
_RUNNING = {
    **dict.fromkeys(LOADERS, "loading weights"),
    "hf_checkpoint_shards": "loading weights",
    "cudagraph_capture": "capturing CUDA graphs",
    "dataset_map": "preparing the data set",
    "hidden_state_extraction": "extracting hidden states",
    "training_epoch": "training",
}
_COMPLETE = {
    **dict.fromkeys(LOADERS, "processing the loaded weights"),
    "hf_checkpoint_shards": "placing the weights on their devices",
    "cudagraph_capture": "warming up",
    "dataset_map": "writing the data set",
    "hidden_state_extraction": "writing the last hidden states",
    "training_epoch": "validating or saving a checkpoint",
}
READY = "ready"
_FIGURES = {
    "load_weights_done": "processing the loaded weights",
    "load_draft_weights_done": "processing the loaded weights",
    "tensorizer_deserialized": "processing the loaded weights",
    "model_loaded": "profiling memory",
    "dynamo_transform": "compiling",
    "torch_compile": "profiling memory",
    "kv_cache_memory": "allocating the KV cache",
    "kv_cache": "warming up",
    "cudagraphs_captured": "warming up",
    "sglang_load_weight": "allocating the KV cache",
    "engine_ready": READY,
}
OF_ALL = frozenset({"kv_cache", "engine_ready"})
"""Figures of the engine, which hold for each of its workers."""

LINE_TOKENS = (
    b"Starting to load model",
    b"Loading drafter model",
    b"Load weight begin",
    b"Warming up model",
    b"fired up and ready to roll",
)
_LINES = (
    (re.compile(r"Starting to load model "), "loading weights"),
    (re.compile(r"Loading drafter model"), "loading the draft model"),
    (re.compile(r".{0,80}Load weight begin\."), "loading weights"),
    (re.compile(r"Warming up model"), "warming up"),
    (re.compile(r".{0,80}The server is fired up and ready to roll"), READY),
)


class PhaseReader:
    """Keeps the phase of each worker."""

    def __init__(self) -> None:
        self._phases: dict[str | None, Phase] = {}
        self.version = 0

    @property
    def found(self) -> tuple[Phase, ...]:
        return tuple(self._phases.values())

    def after(self, bar: Progress) -> str:
        """What its worker does since the bar reached its end; '' once that is over too."""
        phase = self._phases.get(bar.worker)
        named = _COMPLETE.get(bar.kind, "")
        return named if phase is not None and phase.name == named else ""

    def is_of(self, bar: Progress) -> bool:
        """Whether its worker is still where the bar led, rather than one of its later phases."""
        phase = self._phases.get(bar.worker)
        names = (_RUNNING.get(bar.kind), _COMPLETE.get(bar.kind))
        return phase is None or names == (None, None) or phase.name in names

    def bar(self, bar: Progress, line: int) -> None:
        name = _COMPLETE.get(bar.kind) if _ended(bar) else running(bar)
        if name:
            self.enter(bar.worker, name, line)

    def figure(self, worker: str | None, kind: str, line: int) -> None:
        name = _FIGURES.get(kind)
        if not name:
            return
        for each in list(self._phases) if kind in OF_ALL else ():
            self.enter(each, name, line)
        self.enter(worker, name, line)

    def is_loading_draft(self, worker: str | None) -> bool:
        phase = self._phases.get(worker)
        return phase is not None and phase.name == "loading the draft model"

    def restart(self) -> None:
        """A new attempt begins."""
        self._phases.clear()
        self.version += 1

    def enter(self, worker: str | None, name: str, line: int) -> None:
        old = self._phases.get(worker)
        if (old is None and len(self._phases) < MAX_WORKERS) or (old is not None and old.name != name):
            self._phases[worker] = Phase(name, worker, line)
            self.version += 1


def running(bar: Progress) -> str:
    """The phase that the bar leads through, '' for none that is known."""
    return _RUNNING.get(bar.kind, "")


def phase_of_line(text: str) -> str:
    """The phase that the line begins, '' for none. No pattern tells one digit from another."""
    return next((name for pattern, name in _LINES if pattern.match(text)), "")


def _ended(bar: Progress) -> bool:
    return bool(bar.total) and bar.done == bar.total
