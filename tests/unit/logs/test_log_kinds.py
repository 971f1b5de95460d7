"""The root cause's kind and remedy; a log that was rewritten is noticed."""

from __future__ import annotations

import pytest
from log_tools import PLAIN, read

from remote.logs.clock import TAIL_BYTES
from remote.logs.reader import LogReader


@pytest.mark.parametrize(
    ("told", "kind", "remedy"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "cuda_out_of_memory", "batch"),
        ("RuntimeError: CUDA error: out of memory", "cuda_out_of_memory", "batch"),
        ("RuntimeError: unable to open shared memory object </torch_7_1> in read-write mode", "shared_memory", "--shm"),
        ("torch.cuda.OutOfMemoryError: HIP out of memory", "cuda_out_of_memory", "batch"),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node", "host_out_of_memory", "RAM"),
        ("ValueError: To serve at least one request with the models's max seq len (8192), (1 GiB KV cache is needed",
         "kv_cache_too_small", "max_model_len"),
        ("RuntimeError: Cannot re-initialize CUDA in forked subprocess.", "fork_or_spawn", "spawn"),
        ("RuntimeError: CUDA error: device-side assert triggered", "device_assert", "CUDA_LAUNCH_BLOCKING"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "gpu_hardware", "drain"),
        ("torch.distributed.DistBackendError: NCCL error in: x", "nccl", "rank"),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/nccl-abc'", "shared_memory", "--shm-size"),
        ("OSError: [Errno 28] No space left on device: '/data/out'", "disk_full", "disk"),
        ("TimeoutError: RPC call to sample_tokens timed out.", "hang", "hanging"),
        ("safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
         "broken_weights", "download"),
        ("TypeError: f() got an unexpected keyword argument 'tensors'", "api_drift", "patches"),
        ("AssertionError: hidden_state is expected to be non-nan", "hidden_states", "counts"),
        ("AssertionError", "assertion", "source line"),
        ("RecursionError: maximum recursion depth exceeded", "recursion", "calls itself"),
        ("RuntimeError: CUDA error: invalid device ordinal\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side "
         "assertions.", "", ""),
    ],
)  # fmt: skip
def test_the_kind_of_a_root_cause(told: str, kind: str, remedy: str) -> None:
    found = read(PLAIN.replace("AssertionError", told))
    assert found.failure_kind == kind
    assert remedy in found.remedy


@pytest.mark.parametrize(
    ("place", "told", "kind"),
    [
        ("/env/speculators/data_generation/custom_worker.py", "AssertionError", "api_drift"),
        ("/env/hooks/hidden_states.py", "IndexError: index 8201 is out of bounds", "hidden_states"),
        ("/usr/lib/multiprocessing/shared_memory.py", "OSError: [Errno 28] No space left on device", "shared_memory"),
    ],
)
def test_where_an_error_went_through_tells_its_kind(place: str, told: str, kind: str) -> None:
    assert read(PLAIN.replace("AssertionError", told).replace("/srv/stage.py", place)).failure_kind == kind


def test_a_death_brings_its_own_remedy() -> None:
    found = read("Killed\n")
    assert (found.failure_kind, found.remedy) == ("host_out_of_memory", found.fatal[0].remedy)


def test_a_report_without_its_cause_says_to_look_elsewhere() -> None:
    told = "RuntimeError: Engine core initialization failed. See root cause above."
    found = read(PLAIN.replace("AssertionError", told))
    assert found.failure_kind == "cause_not_in_log" and "own traceback" in found.remedy


def test_a_healthy_log_has_no_kind() -> None:
    assert (read("all is well\n").failure_kind, read("all is well\n").remedy) == ("", "")


def test_a_reader_knows_the_bytes_that_it_read_last() -> None:
    reader = LogReader()
    assert reader.follows(b"")
    reader.feed(b"one\ntw")
    reader.feed(b"o\nthree")
    for _ in range(2):
        assert reader.follows(b"two\nthree") and reader.follows(b"one\ntwo\nthree") and reader.follows(b"")
        assert not reader.follows(b"two\nthree\n") and not reader.follows(b"\0\0\0\0three")
        reader = LogReader.restore(reader.save())


def test_a_reader_knows_its_last_bytes_in_large_pieces_too() -> None:
    reader = LogReader()
    reader.feed(b"x" * (3 * TAIL_BYTES) + b"end")
    assert reader.follows(b"xend") and not reader.follows(b"yend")


def test_findings_tell_why_the_log_was_read_anew() -> None:
    reader = LogReader(restarted="truncated")
    reader.feed(PLAIN.encode())
    assert LogReader.restore(reader.save()).finish().restarted == "truncated"
    assert read(PLAIN).restarted == ""
