"""The stage `evaluate`, as far as it needs no model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compat.switches import VARIABLE
from pipeline import evaluate, export, files, loadcheck, products, settings
from pipeline.draft import alarm, serve
from pipeline.draft.acceptance import Answer
from pipeline.draft.measure import Task
from pipeline.draft.prompts import PromptSet
from pipeline.gates.report import GateReport, failed, passed
from pipeline.report import StageError

SAID = Answer((5, 6, 7), (2,))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Task:
    """A task whose draft model's engine answers, and whose target's engine does not come up."""

    @contextmanager
    def engine(*_: Any) -> Iterator[Any]:
        yield SimpleNamespace(one_by_one=False, answer=lambda prompts, *_: [SAID for _ in prompts])

    def no_engine(*_: Any, **__: Any) -> None:
        raise RuntimeError("Engine core initialization failed.")

    monkeypatch.setattr(loadcheck, "engine", engine)
    monkeypatch.setattr(serve, "Plain", no_engine)
    return Task(3, 8, frozenset({0}), (PromptSet("held-out", ((1, 2), (3,)), "made here"),))


def test_a_target_that_cannot_be_served_alone_costs_no_acceptance(
    asked: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = settings.parse({"run": {"dtype": "float32"}, "stage": {"evaluate": {"speed": "always"}}})
    (found,) = [evaluate.Found(one) for one in asked.sets]
    evaluate._serve(wanted, tmp_path, tmp_path, asked, [found])
    assert found.served == [SAID, SAID] and found.alone is None and found.alone_seconds is None
    assert "RuntimeError: Engine core initialization failed." in capsys.readouterr().err
    assert evaluate._why_no_speed(wanted) == "the target alone could not be served"


def test_without_a_wish_for_speed_the_target_is_not_served_alone(asked: Task, tmp_path: Path) -> None:
    wanted = settings.parse({"run": {"dtype": "float32"}, "stage": {"evaluate": {"speed": "never"}}})
    (found,) = [evaluate.Found(one) for one in asked.sets]
    evaluate._serve(wanted, tmp_path, tmp_path, asked, [found])
    assert found.served == [SAID, SAID]
    assert evaluate._why_no_speed(wanted) != "the target alone could not be served"


def test_an_engine_leaves_a_target_on_the_same_gpu_what_it_holds() -> None:
    eight_billion, gpu = 16 << 30, 80 << 30
    share = serve.memory_share(0.92, eight_billion, gpu)
    assert share == 0.72
    assert share * gpu <= gpu - eight_billion - 0.08 * gpu + 1  # what vLLM leaves free of a whole GPU stays free
    assert serve.memory_share(0.9, 4 << 20, gpu) == 0.899


FIGURES = {"acceptance_length": 2.5, "rounds": 2, "accepted": 3, "per_position": [2, 1, 0]}
SET = {"name": "held-out", "prompts": 2, "served": FIGURES, "simulated": None, "untrained": None, "agree": None}


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An evaluation's result before it is judged, of a draft model that is there."""
    monkeypatch.setenv("EYAS_RUN", str(tmp_path))
    monkeypatch.setenv("EYAS_ATTEMPT", str(tmp_path))
    best = products.checkpoints() / "best"
    best.mkdir(parents=True)
    (best / export.WEIGHTS).write_bytes(b"weights")
    return {"draft_sha256": files.sha256(best / export.WEIGHTS), "sets": [SET], "speed": "not measured."}


GOOD = passed("lossless", "The engine's answers are the target's own.")
CAUSE = failed(alarm.GATE, alarm.TOKENIZER, "The tokenizer is another.")


@pytest.mark.parametrize(
    ("reports", "causes", "told"),
    [
        ([failed("lossless", "other tokens", "Other tokens.")], [], "Other tokens."),
        ([GOOD], [CAUSE], "Too little is accepted. The cause found: wrong tokenizer."),
    ],
)
def test_what_a_gate_or_the_alarm_refused_is_measured_again_and_not_exported(
    measured: dict[str, Any], reports: list[GateReport], causes: list[GateReport], told: str
) -> None:
    with pytest.raises(StageError, match=told):
        evaluate._conclude(settings.parse({}), measured, reports, causes)
    found = evaluate.read(products.evaluation())
    assert found is not None and found["passed"] is False
    with pytest.raises(StageError, match="a gate did not pass, or names a cause"):
        export._measured(products.checkpoints() / "best")


def test_too_little_is_refused_each_time_and_without_measuring_again(measured: dict[str, Any]) -> None:
    asked = settings.parse({"stage": {"evaluate": {"min_acceptance": 3.0}}})
    with pytest.raises(StageError, match=r"held-out is 2\.5, and stage\.evaluate\.min_acceptance asks for 3"):
        evaluate._conclude(asked, measured, [GOOD], [])
    found = evaluate.read(products.evaluation())
    assert found is not None and found["passed"] is True
    with pytest.raises(StageError, match="asks for 3"):
        evaluate._judge_length(asked, found)
    evaluate._judge_length(settings.parse({}), found)


def test_patches_that_are_switched_have_it_measured_again(
    measured: dict[str, Any], asked: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = products.checkpoints() / "best"
    (best / "config.json").write_text("{}")
    wanted = settings.parse({"run": {"dtype": "float32"}})
    before = evaluate._binding(wanted, best, asked)
    assert evaluate._binding(wanted, best, asked) == before
    monkeypatch.setenv(VARIABLE, '{"off": ["cpu-rotary"]}')
    assert evaluate._binding(wanted, best, asked) != before
