"""The draft vocabulary: how large it is, what is counted, and which of them may be trained with."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from pipeline import settings, training_data, vocab, vocabulary
from pipeline.dataset import Sample
from pipeline.problem import Problem
from pipeline.report import StageError
from pipeline.vocabulary import Vocabulary


def write(folder: Path, data: str = "d1") -> Vocabulary:
    """A vocabulary as `vocabulary.write` leaves it, with any bytes for the mappings."""
    folder.mkdir(exist_ok=True)
    for name in (vocabulary.D2T, vocabulary.T2D):
        (folder / name).write_bytes(name.encode())
    digest = vocabulary._digest(vocabulary.D2T.encode(), vocabulary.T2D.encode())
    made = Vocabulary(data, 2, 4, 0.75, 8, 1, digest)
    (folder / vocabulary.ABOUT).write_text(json.dumps(asdict(made)))
    return made


def test_only_what_the_assistant_says_is_counted() -> None:
    samples = [Sample(0, (7, 8, 9), (0, 1, 1)), Sample(1, (9, 9), (1, 0))]
    assert vocab.count(samples) == {8: 1, 9: 2}


@pytest.mark.parametrize(("asked", "total", "size"), [(None, 1024, 1024), (None, 99000, 32000), (512, 1024, 512)])
def test_left_out_the_size_follows_the_target(asked: int | None, total: int, size: int) -> None:
    wanted = settings.parse({"run": {} if asked is None else {"draft_vocabulary": asked}})
    assert vocab.choose_size(wanted, total, "/models/a") == size


def test_more_tokens_than_the_target_has_are_refused() -> None:
    with pytest.raises(StageError, match=r"run\.draft_vocabulary is 1025, and /models/a has 1024 tokens; lower it"):
        vocab.choose_size(settings.parse({"run": {"draft_vocabulary": 1025}}), 1024, "/models/a")
    with pytest.raises(Problem, match=r"run\.draft_vocabulary is 1"):
        settings.parse({"run": {"draft_vocabulary": 1}})


def test_a_vocabulary_of_this_data_may_be_trained_with(tmp_path: Path) -> None:
    made = write(tmp_path)
    assert vocabulary.require(tmp_path, "d1") == made


def test_a_vocabulary_of_other_data_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "d1")
    with pytest.raises(StageError, match="chosen from other data; run the stage vocab again"):
        vocabulary.require(tmp_path, "d2")


@pytest.mark.parametrize("lost", [vocabulary.D2T, vocabulary.T2D, vocabulary.ABOUT])
def test_a_vocabulary_with_a_file_cut_short_is_none(tmp_path: Path, lost: str) -> None:
    write(tmp_path)
    (tmp_path / lost).write_bytes((tmp_path / lost).read_bytes()[:-1])
    with pytest.raises(StageError, match="no whole draft vocabulary"):
        vocabulary.require(tmp_path, "d1")


def test_rows_for_the_trainer_are_known_by_their_data(tmp_path: Path) -> None:
    assert not training_data.is_of(tmp_path, "d1")
    with pytest.raises(StageError, match="no whole samples for the trainer"):
        training_data.tokens(tmp_path)
    (tmp_path / training_data.MARKER).write_text('{"data": "d1", "tokens": 70}')
    assert training_data.is_of(tmp_path, "d1")
    assert training_data.tokens(tmp_path) == 70
    assert not training_data.is_of(tmp_path, "d2")


def test_samples_for_the_trainer_that_are_gone_or_cut_short_are_not_whole(tmp_path: Path) -> None:
    rows = tmp_path / "data-00000-of-00001.arrow"
    marker = {"data": "d1", "tokens": 70, "sizes": {rows.name: 4}}
    (tmp_path / training_data.MARKER).write_text(json.dumps(marker))
    assert not training_data.is_of(tmp_path, "d1")
    rows.write_bytes(b"row")
    assert not training_data.is_of(tmp_path, "d1")
    rows.write_bytes(b"rows")
    assert training_data.is_of(tmp_path, "d1") and not training_data.is_of(tmp_path, "d2")
