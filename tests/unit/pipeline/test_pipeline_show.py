"""What `pipeline show` refuses before it asks a tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import dataset
from pipeline.dataset import Sample
from pipeline.problem import Problem
from pipeline.show import show


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setenv("EYAS_RUN", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return {"settings": {}, "run_folder": str(tmp_path), "index": 1}


def test_a_run_without_a_dataset_says_which_stage_makes_it(request_: dict[str, object]) -> None:
    with pytest.raises(Problem, match="run the stage prepare first"):
        show(request_)


def test_a_number_beyond_the_dataset_is_told_with_those_that_are(request_: dict[str, object], tmp_path: Path) -> None:
    dataset.write(tmp_path / "products" / "dataset", [Sample(0, (1, 2), (0, 1))], {})
    with pytest.raises(Problem, match="no sample 1: it has 1") as refused:
        show(request_)
    assert refused.value.remedy == "Give a number from 0 to 0."
    with pytest.raises(Problem, match="environment is not on this host"):
        show({**request_, "index": 0})
