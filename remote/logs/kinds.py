"""What kind of failure the root cause is, and the remedy that people who met it before found."""

from __future__ import annotations

import re
from typing import NamedTuple

from remote.logs import deaths
from remote.logs.findings import Fatal, Traceback

_CUDA_MEMORY = (
    "The graphics memory was full: lower the memory utilization, the batch or the longest sequence, "
    "and look at which phase it happened in."
)
_KV_CACHE = "Lower max_model_len to the number in the message, or raise gpu_memory_utilization."
_FORK = (
    "CUDA was already in use when the process forked: set VLLM_WORKER_MULTIPROC_METHOD=spawn, "
    'and keep the start behind `if __name__ == "__main__"`.'
)
_DRIFT = "The plugin and this version of vLLM do not fit together: see the patches, or install the versions they name."
_ASSERTION = "Read the assert's own source line: it is the message."
_HIDDEN_STATES = (
    "Compare the captured hidden states with the data set: counts, layer offset, the added residual, "
    "and prompts longer than a prefill chunk."
)
_BROKEN_FILE = "A weight file is damaged or not the one expected: download it again and compare its size."
_DISK = "A disk is full: free some space, or point the outputs and caches to another one."
_SETTINGS = "The settings do not fit one another or the model: change the one that the message names."
_WRAPPED = "This error only reports another one: look for the worker's own traceback, here or in its own log."


class Kind(NamedTuple):
    name: str
    remedy: str


_KINDS = tuple(
    (Kind(name, remedy), re.compile(pattern, re.DOTALL))
    for name, remedy, pattern in (
        ("gpu_hardware", deaths.GPU, r".*(?:uncorrectable ECC|cudaErrorECC|fallen off the bus)"),
        (
            "device_assert",
            deaths.ASSERT,
            r".*(?:device-side assert triggered|illegal memory access|srcIndex < srcSelect)",
        ),
        (
            "cuda_out_of_memory",
            _CUDA_MEMORY,
            r"(?:\w+\.)*OutOfMemoryError: (?!Task was)|.*CUDA (?:error: )?out of memory",
        ),
        (
            "host_out_of_memory",
            deaths.MEMORY,
            r"(?:\w+\.)*OutOfMemoryError: Task was|MemoryError|.*Cannot allocate memory",
        ),
        (
            "kv_cache_too_small",
            _KV_CACHE,
            r".*(?:To serve at least one request|larger than the (?:maximum number of tokens|available KV cache)"
            r"|No available memory for the cache blocks)",
        ),
        ("fork_or_spawn", _FORK, r".*(?:re-initialize CUDA in forked|finished its bootstrapping phase)"),
        (
            "shared_memory",
            deaths.SHM,
            r".*(?:/dev/shm|ncclSystemError|out of shared memory|insufficient shared memory"
            r"|unable to (?:write to file|open shared memory object|mmap \d+ bytes from file) </torch_)",
        ),
        ("disk_full", _DISK, r".*No space left on device"),
        ("nccl", deaths.NCCL, r"(?:\w+\.)*DistBackendError|.*(?:NCCL error|collective operation timeout)"),
        ("hang", deaths.HANG, r".*RPC call to \S+ timed out|(?:\w+\.)*TimeoutError"),
        (
            "broken_weights",
            _BROKEN_FILE,
            r".*(?:MetadataIncompleteBuffer|deserializing header|InvalidHeader|PytorchStreamReader failed)",
        ),
        ("hidden_states", _HIDDEN_STATES, r".*hidden.state.{0,80}\b(?:nan|NaN|None)\b|.*expected to be non-nan"),
        (
            "api_drift",
            _DRIFT,
            r"(?:TypeError: .*(?:unexpected keyword argument|missing \d+ required|positional argument|multiple values)"
            r"|AttributeError: .*has no attribute|ImportError: cannot import name|ModuleNotFoundError)",
        ),
        ("recursion", deaths.RECURSION, r"RecursionError"),
        ("settings", _SETTINGS, r"(?:\w+\.)*ValidationError: "),
        ("assertion", _ASSERTION, r"AssertionError: "),
    )
)
_BY_FRAMES = (
    (
        Kind("shared_memory", deaths.SHM),
        re.compile(r"OSError: .*No space left on device", re.DOTALL),
        re.compile(r"/shm_broadcast\.py|shared_memory\.py|/dev/shm"),
    ),
    (
        Kind("api_drift", _DRIFT),
        re.compile(r"(?:TypeError|AttributeError|AssertionError|KeyError|NotImplementedError): "),
        re.compile(r"speculators/data_generation|custom_worker\.py"),
    ),
    (
        Kind("hidden_states", _HIDDEN_STATES),
        re.compile(r"(?:IndexError|RuntimeError): "),
        re.compile(r"hidden_?states?", re.IGNORECASE),
    ),
)
"""Kinds that the error's own words do not tell, but the files and source lines do that it went through."""
_VAGUE = ("assertion", "disk_full")
"""Kinds that the way an error took can tell more closely."""
_OF_DEATHS = {
    "oom_kill": "host_out_of_memory",
    "ray_oom": "host_out_of_memory",
    "nccl_timeout": "nccl",
    "xid": "gpu_hardware",
    "device_side_assert": "device_assert",
    "bus_error": "shared_memory",
    "hang_warning": "hang",
    "timeout_dump": "hang",
    "silent_data_loss": "hidden_states",
}


def kind_of(
    tracebacks: tuple[Traceback, ...], fatal: tuple[Fatal, ...], root: int | None, root_fatal: int | None
) -> Kind | None:
    """The kind of the root cause; None without a failure, or for one that none of the kinds describes."""
    if root_fatal is not None:
        death = fatal[root_fatal]
        return Kind(_OF_DEATHS.get(death.kind, death.kind), death.remedy)
    if root is not None:
        chosen = tracebacks[root]
        told = f"{chosen.exception_type}: {chosen.message[:2000]}"
        way = "\n".join(f"{frame.file} {frame.function} {frame.source}" for frame in chosen.frames)
        by_words = next((kind for kind, pattern in _KINDS if pattern.match(told)), None)
        if by_words is not None and by_words.name not in _VAGUE:
            return by_words
        by_frames = (kind for kind, words, place in _BY_FRAMES if words.match(told) and place.search(way))
        return next(by_frames, by_words)
    if any(item.wrapper for item in tracebacks):
        return Kind("cause_not_in_log", _WRAPPED)
    return None
