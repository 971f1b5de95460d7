"""Checkpoints: whole or not there, the best linked, one that is cut short passed over with a word, old ones pruned."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.draft import checkpoints
from pipeline.report import StageError


def fill(half: Path) -> None:
    (half / "model.safetensors").write_bytes(b"weights" * 100)
    (half / checkpoints.RESUME).write_bytes(b"moments" * 100)


def make(folder: Path, *steps: int) -> list[Path]:
    return [checkpoints.publish(folder, step, fill) for step in steps]


def silent(_text: str) -> None:
    raise AssertionError(_text)


def test_the_newest_whole_one_is_gone_on_from(tmp_path: Path) -> None:
    make(tmp_path, 10, 20, 100000000)
    found = checkpoints.newest(tmp_path, silent)
    assert found == checkpoints.Checkpoint(tmp_path / "step-100000000", 100_000_000)
    assert checkpoints.newest(tmp_path / "nowhere", silent) is None


@pytest.mark.parametrize("file", ["model.safetensors", checkpoints.RESUME, checkpoints.COMPLETE])
@pytest.mark.parametrize("how", ["cut", "altered", "missing"])
def test_one_that_is_damaged_is_passed_over_with_a_word(tmp_path: Path, file: str, how: str) -> None:
    _, last = make(tmp_path, 10, 20)
    data = (last / file).read_bytes()
    if how == "missing":
        (last / file).unlink()
    else:
        (last / file).write_bytes(data[:-9] if how == "cut" else b"x" + data[1:])
    told: list[str] = []
    found = checkpoints.newest(tmp_path, told.append)
    assert found is not None and found.step == 10
    assert len(told) == 1 and "step-00000020 is cut short" in told[0] and told[0].endswith("step-00000010.")


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    make(tmp_path, 10)

    def full(half: Path) -> None:
        (half / "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        checkpoints.publish(tmp_path, 20, full)
    assert [c.step for c in checkpoints.every(tmp_path)] == [10]
    make(tmp_path, 20)
    assert not list(tmp_path.glob(".*"))


def test_the_best_is_a_whole_folder_or_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StageError, match=r"no trained draft model in .*; run the stage train first"):
        checkpoints.best(tmp_path)
    first, second = make(tmp_path, 10, 20)
    checkpoints.mark_best(tmp_path, first.name)
    checkpoints.mark_best(tmp_path, second.name)
    assert checkpoints.best(tmp_path) == second
    (second / "model.safetensors").write_bytes(b"")
    with pytest.raises(StageError, match=r"cut short \(model.safetensors has 0 of 700 bytes\)"):
        checkpoints.best(tmp_path)


def test_the_best_and_the_newest_are_kept(tmp_path: Path) -> None:
    made = make(tmp_path, 10, 20, 30, 40)
    checkpoints.mark_best(tmp_path, made[1].name)
    checkpoints.prune(tmp_path, 40)
    assert [c.step for c in checkpoints.every(tmp_path)] == [20, 30, 40]
    assert checkpoints.best(tmp_path) == made[1]
    assert not (made[1] / checkpoints.RESUME).exists()
    assert all((path / checkpoints.RESUME).exists() for path in made[2:])
    found = checkpoints.newest(tmp_path, silent)
    assert found is not None and found.step == 40


def test_damaged_ones_behind_the_training_take_no_place_of_those_that_it_makes(tmp_path: Path) -> None:
    for path in make(tmp_path, 10, 80, 90)[1:]:
        (path / "model.safetensors").write_bytes(b"")
    for step in (20, 30):  # of a training that went on from 10
        make(tmp_path, step)
        checkpoints.prune(tmp_path, step)
    assert [c.step for c in checkpoints.every(tmp_path)] == [20, 30, 80, 90]
    make(tmp_path, 85)
    checkpoints.prune(tmp_path, 85)
    assert [c.step for c in checkpoints.every(tmp_path)] == [80, 85, 90]
    make(tmp_path, 90, 95)
    checkpoints.prune(tmp_path, 95)
    assert [c.step for c in checkpoints.every(tmp_path)] == [90, 95]


def test_a_pruned_best_is_not_gone_on_from(tmp_path: Path) -> None:
    made = make(tmp_path, 10, 20, 30)
    checkpoints.mark_best(tmp_path, made[0].name)
    checkpoints.prune(tmp_path, 30)
    for path in made[1:]:
        (path / "model.safetensors").write_bytes(b"")
    told: list[str] = []
    assert checkpoints.newest(tmp_path, told.append) is None
    assert [text.endswith("there is none before it.") for text in told] == [True, True]
