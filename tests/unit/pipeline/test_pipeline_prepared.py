"""A data set that was made with other settings than a relaunched stage has is not extracted as if it were of these."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors_files import write_model

from pipeline import dataset, prepared
from pipeline.dataset import Sample
from pipeline.report import StageError
from pipeline.settings import Settings

WANTED = Settings(max_length=128, conversations="/data/chat.jsonl")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


@pytest.fixture
def folder(tmp_path: Path, target: Path) -> Path:
    dataset.write(tmp_path / "dataset", [Sample(0, (1,), (1,))], prepared.of(WANTED, target))
    return tmp_path / "dataset"


def test_the_settings_that_it_was_made_with_pass_wherever_the_target_lies(folder: Path, target: Path) -> None:
    prepared.require(WANTED, target, folder)
    prepared.require(replace(WANTED, layers=(1, 2, 3)), target.rename(target.with_name("moved")), folder)


def test_another_tokenizer_is_refused(folder: Path, target: Path) -> None:
    (target / "tokenizer.json").write_text('{"other": 1}')
    with pytest.raises(StageError, match=rf"made with another tokenizer .*of {target}, .*Relaunch the stage prepare"):
        prepared.require(WANTED, target, folder)


def test_another_length_is_refused(folder: Path, target: Path) -> None:
    with pytest.raises(StageError, match=r"made for run\.max_length 128, and it is 64 now\. Relaunch"):
        prepared.require(replace(WANTED, max_length=64), target, folder)


def test_other_conversations_are_told(
    folder: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EYAS_ATTEMPT", str(tmp_path))
    prepared.require(replace(WANTED, conversations="/data/new.jsonl", long="drop"), target, folder)
    told = [json.loads(line)["text"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [text.partition(";")[0] for text in told] == [
        "The data set is that of run.conversations '/data/chat.jsonl'",
        "The data set is that of stage.prepare.long 'truncate'",
    ]


def test_an_older_data_set_that_does_not_say_passes_and_a_torn_one_does_not(folder: Path, target: Path) -> None:
    (folder / dataset.ABOUT).write_text('{"marks": null}')
    prepared.require(WANTED, target, folder)
    (folder / dataset.ABOUT).write_text("{")
    with pytest.raises(StageError, match="relaunch the stage prepare"):
        prepared.require(WANTED, target, folder)
