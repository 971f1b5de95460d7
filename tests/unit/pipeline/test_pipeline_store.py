"""Hidden states on disk: a sample counts only when its file, its manifest line and the dataset agree."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest
from saved_states import save

from pipeline.dataset import Sample
from pipeline.report import StageError
from pipeline.store import MANIFEST, Part, Store, condemn, data_digest, entries, pardon

ORIGIN = {"target": "abc", "layers": {"vllm_ids": [2, 4, 5, 8], "output_indices": [1, 3, 4, 7]}, "dtype": "auto"}
PATCH = {"id": "a", "process": "driver", "digest": "12ab", "replaced_digest": "34cd"}
SAMPLES = [Sample(i, (i, i + 1, i + 2), (0, 1, 1)) for i in range(4)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = Store(tmp_path / "hidden_states", ORIGIN)
    store.begin("run/extract/1", "generator", [PATCH])
    for sample in SAMPLES:
        save(store, sample, f"states of {sample.index}".encode())
    return tmp_path / "hidden_states"


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / MANIFEST).read_text().splitlines()]


def missing(folder: Path, samples: list[Sample] = SAMPLES, origin: dict[str, object] = ORIGIN) -> list[int]:
    return [sample.index for sample in Store(folder, origin).missing(samples)]


def test_whole_samples_are_not_done_again(folder: Path) -> None:
    assert missing(folder) == []


def test_absent_truncated_and_foreign_files_are_done_again(folder: Path) -> None:
    (folder / "hs_0.safetensors").unlink()
    (folder / "hs_1.safetensors").write_bytes(b"states")
    (folder / "hs_2.safetensors").write_bytes((folder / "hs_3.safetensors").read_bytes())
    assert missing(folder) == [0, 1, 2]


def test_a_file_without_its_manifest_line_is_done_again(folder: Path) -> None:
    lines = (folder / MANIFEST).read_text().splitlines(keepends=True)
    (folder / MANIFEST).write_text("".join(lines[:4]))
    assert missing(folder) == [3]


def test_other_tokens_are_done_again(folder: Path) -> None:
    assert missing(folder, [Sample(1, (9, 9, 9), (0, 1, 1)), SAMPLES[2]]) == [1]


@pytest.mark.parametrize(
    "key, value", [("target", "other"), ("layers", {"vllm_ids": [1, 2, 3, 8]}), ("dtype", "bfloat16")]
)
def test_states_of_another_origin_are_refused_and_kept(folder: Path, key: str, value: object) -> None:
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(StageError, match=f"another {key} .*hs_0.*run/extract/1.*Start a new run"):
        Store(folder, {**ORIGIN, key: value})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == kept


def test_a_manifest_line_cut_off_by_a_crash_costs_that_sample_only(folder: Path) -> None:
    path = folder / MANIFEST
    path.write_bytes(path.read_bytes()[:-20])
    assert missing(folder) == [3]
    save(Store(folder, ORIGIN), SAMPLES[3], b"again")
    assert missing(folder) == []
    assert [line["index"] for line in lines(folder) if "index" in line] == [0, 1, 2, 3]


def test_the_patches_in_force_stand_before_the_samples_that_their_attempt_made(folder: Path) -> None:
    again = Store(folder, ORIGIN)
    again.begin("run/extract/2", "generator", [])
    save(again, SAMPLES[3], b"again")
    found = lines(folder)
    assert [line.get("index", line.get("patches")) for line in found] == [[PATCH], 0, 1, 2, 3, [], 3]
    assert [line["attempt"] for line in found] == ["run/extract/1"] * 5 + ["run/extract/2"] * 2


def test_a_cut_line_takes_no_line_of_an_attempt_with_it(folder: Path) -> None:
    path = folder / MANIFEST
    path.write_bytes(path.read_bytes()[:-20])
    Store(folder, ORIGIN)
    assert lines(folder)[0] == {"attempt": "run/extract/1", "backend": "generator", "patches": [PATCH]}
    assert [line["index"] for line in lines(folder)[1:]] == [0, 1, 2]


def test_the_latest_line_of_a_sample_counts(folder: Path) -> None:
    save(Store(folder, ORIGIN), SAMPLES[0], b"new states")
    assert missing(folder) == []
    assert (folder / "hs_0.safetensors").read_bytes() == b"new states"


def test_a_crash_before_the_rename_leaves_the_old_file_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(self: Path, target: Path) -> None:
        raise OSError("power cut")

    store = Store(folder, ORIGIN)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="power cut"):
        patch.setattr(Path, "replace", crash)
        save(store, SAMPLES[0], b"half")
    assert (folder / "hs_0.safetensors").read_bytes() == b"states of 0"
    assert missing(folder) == []


def test_the_digest_of_the_data_changes_with_their_states_their_masks_and_their_number(folder: Path) -> None:
    first = data_digest(folder, SAMPLES)
    assert data_digest(folder, SAMPLES) == first
    others = [
        data_digest(folder, SAMPLES[:3]),
        data_digest(folder, [*SAMPLES[:3], replace(SAMPLES[3], loss_mask=(0, 0, 1))]),
    ]
    save(Store(folder, ORIGIN), SAMPLES[0], b"other states")
    others.append(data_digest(folder, SAMPLES))
    assert len({first, *others}) == 4


def test_a_condemned_sample_is_done_again_and_its_file_stays_until_then(tmp_path: Path) -> None:
    store = Store(tmp_path, ORIGIN)
    for sample in SAMPLES:
        save(store, sample, b"states")
    digest = data_digest(tmp_path, SAMPLES)
    assert condemn(tmp_path, {SAMPLES[1].index: "NaN", 99: "not extracted"}, "run/verify/1") == 1
    assert condemn(tmp_path, {SAMPLES[1].index: "NaN"}, "run/verify/2") == 0
    again = Store(tmp_path, ORIGIN)
    assert (again.missing(SAMPLES), again.condemned()) == ([SAMPLES[1]], {"NaN": 1})
    assert again.path(SAMPLES[1].index).read_bytes() == b"states"
    save(again, SAMPLES[1], b"states")
    assert (Store(tmp_path, ORIGIN).missing(SAMPLES), pardon(tmp_path)) == ([], 0)
    assert data_digest(tmp_path, SAMPLES) == digest


def test_a_condemned_sample_can_be_pardoned(tmp_path: Path) -> None:
    store = Store(tmp_path, ORIGIN)
    for sample in SAMPLES:
        save(store, sample, b"states")
    before = entries(tmp_path)
    condemn(tmp_path, {sample.index: "rotary" for sample in SAMPLES}, "run/verify/1")
    assert Store(tmp_path, ORIGIN).missing(SAMPLES) == SAMPLES
    assert pardon(tmp_path) == len(SAMPLES)
    assert (Store(tmp_path, ORIGIN).missing(SAMPLES), entries(tmp_path)) == ([], before)


def test_a_whole_file_is_not_read_again_but_an_altered_one_of_the_same_size_and_time_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "hs_1.safetensors"
    before = path.stat()
    path.write_bytes(b"States of 1")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    read: list[str] = []
    real = Path.open

    class Counted:
        def __init__(self, file: BinaryIO) -> None:
            self._file = file

        def __enter__(self) -> Counted:
            return self

        def __exit__(self, *ended: object) -> None:
            self._file.close()

        def fileno(self) -> int:
            return self._file.fileno()

        def read(self, size: int) -> bytes:
            read.append(Path(self._file.name).name)
            return self._file.read(size)

    monkeypatch.setattr(
        Path,
        "open",
        lambda self, mode: (Counted if self.name.startswith("hs_") else lambda file: file)(real(self, mode)),
    )
    assert missing(folder) == [1]
    assert set(read) == {"hs_1.safetensors"}


def test_the_files_of_a_copied_folder_are_read_and_found_whole(folder: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(folder, tmp_path / "copied")
    assert missing(copied) == []
    (copied / "hs_3.safetensors").write_bytes(b"States of 3")
    assert missing(copied) == [3]


def test_every_line_has_a_stamp_that_fits_its_file(folder: Path) -> None:
    for line in lines(folder)[1:]:
        found = (folder / str(line["file"])).stat()
        assert line["stamp"] == [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def test_a_kill_while_the_clock_is_watched_leaves_nothing_beside_the_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[Path] = []

    def killed(probe: Path) -> None:
        places.append(probe)
        raise KeyboardInterrupt

    store, scratch = Store(tmp_path / "hidden_states", ORIGIN), tmp_path / "hidden_states" / ".scratch"
    scratch.mkdir()
    made = scratch / "hs_0.part"
    made.write_bytes(b"states")
    monkeypatch.setattr(Path, "touch", killed)
    with pytest.raises(KeyboardInterrupt):
        store.commit([Part(SAMPLES[0], made, "digest")])
    assert places[0].parent == scratch  # the next attempt removes it whole


def test_states_of_another_form_are_refused_and_older_lines_mean_the_full_one(folder: Path) -> None:
    assert missing(folder, origin={**ORIGIN, "states": "full"}) == []
    with pytest.raises(StageError, match="another states"):
        Store(folder, {**ORIGIN, "states": "fp8"})
