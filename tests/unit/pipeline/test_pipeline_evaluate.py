"""The stage `evaluate`, as far as it needs no model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline import evaluate, loadcheck, settings
from pipeline.draft import serve
from pipeline.draft.acceptance import Answer
from pipeline.draft.measure import Task
from pipeline.draft.prompts import PromptSet

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
