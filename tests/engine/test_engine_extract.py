"""The extract stage on the real engine: it succeeds, resumes at the sample, stops when asked, and fails in full."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_run import Run

from compat import own_code
from compat.catalogue import get
from compat.patch import Switches
from compat.status import status

pytestmark = pytest.mark.engine


def states(run: Run) -> Path:
    return run.products / "hidden_states"


def clear(run: Run) -> None:
    for path in states(run).glob("hs_*"):
        path.unlink()


def manifest(run: Run) -> list[dict[str, object]]:
    """The samples' lines."""
    return [line for line in manifest_lines(run) if "index" in line]


def manifest_lines(run: Run) -> list[dict[str, object]]:
    return [json.loads(line) for line in (states(run) / "manifest.jsonl").read_text().splitlines()]


def header(path: Path) -> dict[str, dict[str, object]]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    found: dict[str, dict[str, object]] = json.loads(data[8 : 8 + length])
    return found


def test_with_prefix_caching_off_the_traceback_runs_from_main_to_cache_full_blocks(run: Run) -> None:
    clear(run)
    attempt = run.stage("extract", off=("prefix-caching",))
    assert attempt.rc == 1
    assert not list(states(run).glob("hs_*"))
    printed = attempt.log[attempt.log.index("Traceback (most recent call last)") :]
    order = ["in main", "in run", "in take", "in generate", "in schedule", "in allocate_slots", "in cache_full_blocks"]
    places = [printed.index(frame) for frame in order]
    assert places == sorted(places)
    assert "assert len(request.block_hashes) >= num_full_blocks" in printed
    (event,) = attempt.events("exception")
    assert (event["type"], event["message"]) == ("AssertionError", "")
    assert event["text"] in printed
    off = [e["id"] for e in attempt.events("patch") if e["state"] == "off"]
    assert off == ["prefix-caching"]


def test_extraction_writes_a_whole_sample_for_each_of_the_dataset(run: Run) -> None:
    shutil.rmtree(states(run), ignore_errors=True)
    attempt = run.stage("extract")
    assert attempt.rc == 0, attempt.log
    rows = [json.loads(line) for line in (run.products / "dataset" / "dataset.jsonl").read_text().splitlines()]
    assert len(rows) == 12
    for row, entry in zip(rows, manifest(run), strict=True):
        tensors = header(states(run) / str(entry["file"]))
        assert tensors["hidden_states"]["dtype"] == "BF16"
        assert tensors["hidden_states"]["shape"] == [len(row["token_ids"]), 4, 128]
        assert tensors["token_ids"] == {**tensors["token_ids"], "dtype": "I64", "shape": [len(row["token_ids"])]}
        assert entry["rows"] == len(row["token_ids"])
        assert entry["layers"] == {"vllm_ids": [2, 4, 5, 8], "output_indices": [1, 3, 4, 7]}
    recorded: list[dict[str, str]] = manifest_lines(run)[0]["patches"]  # type: ignore[assignment]
    reported = [e for e in attempt.events("patch") if e["state"] == "active"]
    assert [p["id"] for p in recorded] == [e["id"] for e in reported]
    for entry in recorded:
        patch = get(entry["id"])
        assert patch and entry["digest"] == own_code.digest(patch)
        assert entry["replaced_digest"] in patch.written_for
    assert "Loading safetensors checkpoint shards" in attempt.log
    processes = {e["id"]: e["process"] for e in attempt.events("patch") if e["state"] == "active"}
    needed = [row for row in status(run.site, Switches(), {}) if row.state == "needed" and not row.advice]
    assert processes == {row.id: "worker" if row.where == "worker" else "driver" for row in needed}
    last = attempt.events("progress")[-1]
    assert (last["done"], last["total"], last["unit"]) == (12, 12, "samples")


def test_a_new_attempt_does_only_the_samples_that_are_not_whole(run: Run) -> None:
    first = run.stage("extract")
    assert first.rc == 0, first.log
    folder = states(run)
    whole = {path.name: path.read_bytes() for path in folder.glob("hs_*")}
    stamps = {name: (folder / name).stat().st_mtime_ns for name in whole}
    (folder / "hs_2.safetensors").unlink()
    (folder / "hs_5.safetensors").write_bytes(whole["hs_5.safetensors"][:-100])
    (folder / "hs_7.safetensors").write_bytes(whole["hs_8.safetensors"])
    second = run.stage("extract")
    assert second.rc == 0, second.log
    assert {path.name: path.read_bytes() for path in folder.glob("hs_*")} == whole
    redone = {name for name in whole if (folder / name).stat().st_mtime_ns != stamps[name]}
    assert redone == {"hs_2.safetensors", "hs_5.safetensors", "hs_7.safetensors"}
    third = run.stage("extract")
    assert third.rc == 0
    assert "Loading safetensors" not in third.log


def test_a_stop_request_ends_the_stage_and_keeps_what_is_done(run: Run) -> None:
    clear(run)
    process, folder = run.start("extract")
    try:
        wait(lambda: any(states(run).glob("hs_*.safetensors")) or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 143, (folder / "stdout.log").read_text()
    finally:
        process.kill()
    kept = len(list(states(run).glob("hs_*.safetensors")))
    assert kept >= 1
    after = run.stage("extract")
    assert after.rc == 0
    assert after.events("progress")[-1]["done"] == 12


def wait(condition: Callable[[], bool], timeout: float = 600) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
