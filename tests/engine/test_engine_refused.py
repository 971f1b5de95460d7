"""What extract must not keep or must stop at: states that are not finite, and a disk that fills up."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from drill import MARKED, Started, leftovers, run_of, samples, states
from engine_run import Run

pytestmark = pytest.mark.engine


def with_a_nan(target: Path, folder: Path) -> Path:
    """The target, with a NaN in the embedding of the token MARKED."""
    shutil.copytree(target, folder)
    for path in folder.glob("*.safetensors"):
        data = bytearray(path.read_bytes())
        size = int.from_bytes(data[:8], "little")
        about = json.loads(data[8 : 8 + size]).get("model.embed_tokens.weight")
        if about is None:
            continue
        start, end = about["data_offsets"]
        rows, columns = about["shape"]
        width = (end - start) // (rows * columns)
        at = 8 + size + start + MARKED * columns * width
        data[at : at + width] = {2: b"\xc0\x7f", 4: b"\x00\x00\xc0\x7f"}[width]  # bfloat16, float32
        path.write_bytes(data)
        return folder
    raise AssertionError("no embedding")


@pytest.mark.parametrize("engines", [1, 2])
def test_states_that_are_not_finite_stop_the_stage_at_once_and_name_the_sample(
    run: Run, tmp_path: Path, engines: int
) -> None:
    target = with_a_nan(run.products / "target", tmp_path / "target")
    made = samples(60, 40, marked=9)
    drilled = run_of(tmp_path / "run", target, made, "seed", backend="transformers", engines=engines)
    attempt = Started(drilled).wait()
    assert attempt.rc == 1
    sentence = "The hidden states of sample 9 (drill:10) are not finite"
    told = [event["message"] for event in attempt.events("exception")]
    assert any(sentence in message and "2 tries gave the same" in message for message in told), told
    if engines == 2:
        assert any("Engine 0 of 2 ended with exit status 1" in message for message in told), told
    kept = states(drilled)
    assert "hs_9.safetensors" not in kept
    assert {f"hs_{index}.safetensors" for index in (8, 10, 11)} <= kept.keys()  # of the same batch
    assert leftovers(drilled) == []


def without(target: Path, folder: Path, name: str) -> Path:
    """The target, tied: without that tensor, and its config says so."""
    shutil.copytree(target, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    index = folder / "model.safetensors.index.json"
    shards = json.loads(index.read_text())
    path = folder / shards["weight_map"].pop(name)
    index.write_text(json.dumps(shards))
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    head, kept, end = json.loads(data[8 : 8 + size]), [], 0
    del head[name]
    for about in (about for key, about in head.items() if key != "__metadata__"):
        start, stop = about["data_offsets"]
        kept.append(data[8 + size + start : 8 + size + stop])
        about["data_offsets"] = [end, end := end + stop - start]
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(kept))
    return folder


def test_a_target_with_a_tied_head_and_one_that_has_lost_a_shard(run: Run, tmp_path: Path) -> None:
    target, made = run.products / "target", samples(8, 40)
    plain = run_of(tmp_path / "plain", target, made, "seed", backend="transformers")
    tied = without(target, tmp_path / "tied", "lm_head.weight")
    drilled = run_of(tmp_path / "run", tied, made, "seed", backend="transformers")
    for one in (plain, drilled):
        attempt = Started(one).wait()
        assert attempt.rc == 0, attempt.log
    assert states(drilled) == states(plain)  # no state depends on the head
    named = json.loads((tied / "model.safetensors.index.json").read_text())["weight_map"]
    shards = sorted(set(named.values()))
    (tied / shards[-1]).unlink()
    attempt = Started(drilled).wait()
    assert attempt.rc == 1
    (event,) = attempt.events("exception")
    assert event["type"] == "pipeline.report.StageError"
    assert f"lacks 1 of {len(shards)} shards; the first is {shards[-1]}" in event["message"]
    assert states(drilled) == states(plain)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """96 MB, of which extraction leaves 64 free."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "eyas-test", place], capture_output=True).returncode:
        pytest.skip("no right to mount a small file system here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_a_disk_that_fills_up_stops_the_stage_and_loses_nothing(run: Run, tmp_path: Path, small_disk: Path) -> None:
    made = samples(160, 60)
    plain = run_of(tmp_path / "plain", run.products / "target", made, "seed", backend="transformers")
    assert Started(plain).wait().rc == 0
    folder = small_disk / "states"
    drilled = run_of(
        tmp_path / "run", run.products / "target", made, "seed", backend="transformers", folder=str(folder)
    )
    for left in (32 << 20, 0):  # below the reserve; then not a byte
        filled = small_disk / "other"
        attempt = Started(drilled)
        before = len(list(folder.glob("hs_*")))
        assert attempt.until(lambda was=before: len(list(folder.glob("hs_*"))) > was)  # type: ignore[misc]
        fill(filled, left)
        ended = attempt.wait()
        assert ended.rc == 1, ended.log
        (event,) = ended.events("exception")
        assert event["type"] == "pipeline.report.StageError"
        assert f"The disk of {drilled.products / 'hidden_states'}" in event["message"]
        assert "relaunch the stage" in event["message"]
        kept = states(drilled)
        assert before < len(kept) < len(made)
        assert leftovers(drilled) == []
        refused = Started(drilled).wait()  # still full: said before the target is loaded
        assert refused.rc == 1
        assert states(drilled) == kept
        filled.unlink()
    assert Started(drilled).wait().rc == 0
    assert states(drilled) == states(plain)


def fill(path: Path, left: int) -> None:
    """Takes all of the disk but `left` bytes."""
    room = shutil.disk_usage(path.parent).free - left
    try:
        with path.open("wb", buffering=0) as file:
            while room > 0:
                room -= file.write(bytes(min(room, 1 << 20))) or 0
    except OSError:
        assert left == 0
