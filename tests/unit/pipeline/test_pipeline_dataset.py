"""Datasets read from files: what is broken is named with its place."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import dataset
from pipeline.dataset import Sample
from pipeline.layers import choose
from pipeline.problem import Problem
from pipeline.report import StageError

ROOT = Path(__file__).parents[3]


def test_a_dataset_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    samples = [Sample(0, (1, 2, 3), (0, 1, 1), "chat.jsonl:7"), Sample(1, (4,), (1,))]
    dataset.write(tmp_path / "dataset", samples, {"samples": 2})
    assert dataset.read(tmp_path / "dataset") == samples


def test_a_dataset_that_fails_half_way_leaves_the_one_before(tmp_path: Path) -> None:
    dataset.write(tmp_path, [Sample(0, (1,), (1,))], {"samples": 1})

    def failing() -> Iterator[Sample]:
        yield Sample(0, (2,), (1,))
        raise StageError("no")

    with pytest.raises(StageError):
        dataset.write(tmp_path, failing(), {"samples": 2})
    assert dataset.read(tmp_path) == [Sample(0, (1,), (1,))]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset.json", "dataset.jsonl"]


def test_a_dataset_that_does_not_fit_on_the_disk_is_told_so_and_leaves_the_one_before(tmp_path: Path) -> None:
    code = """
import resource, signal, sys
from pathlib import Path
from pipeline import dataset
folder = Path(sys.argv[1])
dataset.write(folder, [dataset.Sample(0, (1,), (1,))], {})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
dataset.write(folder, [dataset.Sample(n, (2,) * 99, (1,) * 99) for n in range(99)], {})
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"pipeline.report.StageError: The disk of {tmp_path} takes no file of that size"), last
    assert "relaunch the stage" in last
    assert dataset.read(tmp_path) == [Sample(0, (1,), (1,))]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset.json", "dataset.jsonl"]


@pytest.mark.parametrize("line", ['{"index": 1, "token_ids": [1], "loss_mask": []}', "{", '{"index": 1}'])
def test_a_broken_sample_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    dataset.write(tmp_path, [Sample(0, (1, 2), (0, 1))], {})
    with (tmp_path / dataset.SAMPLES).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(StageError, match=r"dataset\.jsonl:2 is no sample"):
        dataset.read(tmp_path)


def test_no_dataset_is_an_error_that_names_the_stage_to_run(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="run the stage prepare first"):
        dataset.read(tmp_path)


def test_default_layers_are_vllm_s_and_one_less_as_output_indices() -> None:
    layers = choose(61, None)
    assert layers.vllm_ids == (2, 30, 58, 61)
    assert layers.output_indices == (1, 29, 57, 60)
    assert choose(8, None).vllm_ids == (2, 4, 5, 8)


def test_layers_outside_the_target_are_refused() -> None:
    with pytest.raises(Problem, match=r"run\.layers names 8, and the target has 8 layers"):
        choose(8, (1, 2, 8))
    with pytest.raises(Problem, match="too few"):
        choose(6, None)
