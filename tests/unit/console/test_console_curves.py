"""Curves as the console keeps and groups them: pure functions, no screen."""

from __future__ import annotations

from typing import Any

import pytest
from console_training import ACCEPTANCE, TrainingSession, trained_run

from console import curves
from console.metrics_report import metrics_json, metrics_text
from remote.views import CurveView
from remote.wire import from_wire


def view(name: str, attempt: int, steps: list[float], last: float | None = None, **more: Any) -> CurveView:
    values = tuple(step * 10 for step in steps)
    end = steps[-1] if last is None else last
    given = {"stepped": True, "reports": len(steps), "last_step": end, "last_value": end * 10, **more}
    return CurveView("train", attempt, name, steps=tuple(steps), values=values, **given)


def kept(*views: CurveView) -> dict[str, CurveView]:
    return curves.take({}, views)


def whole(done: bool) -> dict[str, CurveView]:
    answer = TrainingSession(done).request("metrics", run="r", have={})
    return curves.take({}, [from_wire(CurveView, curve) for curve in answer["curves"]])


def test_pieces_are_joined_and_one_that_does_not_fit_is_refused() -> None:
    first = kept(view("loss", 1, [0, 1, 2]))
    joined = curves.take(first, [view("loss", 1, [3, 4], start=3)])
    assert joined["train/1/loss"].steps == (0, 1, 2, 3, 4)
    assert first["train/1/loss"].steps == (0, 1, 2)
    for misfit in (view("loss", 1, [9], start=8), view("loss", 1, [3], start=3, stride=2), view("lr", 1, [3], start=3)):
        with pytest.raises(ValueError, match="never came"):
            curves.take(first, [misfit])


def test_a_resumed_attempt_replaces_what_it_did_again() -> None:
    (line,) = curves.lines(kept(view("loss", 1, [0, 1, 2, 3, 4]), view("loss", 2, [3, 4, 5])), "train")
    assert line.steps == (0, 1, 2, 3, 4, 5)
    (unstepped,) = curves.lines(
        kept(view("loss", 1, [0, 1, 2], stepped=False), view("loss", 2, [0, 1], stepped=False)), "train"
    )
    assert unstepped.steps == (0, 1)


def test_the_latest_report_ends_the_curve_even_when_it_is_no_point() -> None:
    (line,) = curves.lines(kept(view("loss", 1, [0, 8, 16], last=19)), "train")
    assert (line.steps[-1], line.latest) == (19, 190)


def test_training_and_validation_of_every_position_are_one_group() -> None:
    found = curves.groups(whole(done=False), "train")
    assert [group.name for group in found] == ["loss", "accuracy", "acceptance", "lr", "tokens_per_s"]
    accuracy = found[1]
    assert [line.name for line in accuracy.training] == ["accuracy_1", "accuracy_2", "accuracy_3"]
    assert [line.name for line in accuracy.validation] == ["val/accuracy_1", "val/accuracy_2", "val/accuracy_3"]


def test_the_best_is_the_lowest_loss_and_the_highest_acceptance() -> None:
    found = {line.name: line for line in curves.lines(whole(done=True), "train")}
    assert found["loss"].best == min(found["loss"].values)
    assert found["acceptance"].best == max(found["acceptance"].values)
    assert found["lr"].best is None


def test_acceptance_is_a_table_by_set_of_prompts() -> None:
    table = curves.accepted(trained_run(done=True))
    assert {row.prompts: row.length for row in table} == ACCEPTANCE
    assert sorted(table[0].positions["served"]) == [1, 2, 3]
    assert curves.accepted(trained_run(done=False)) == ()


@pytest.mark.parametrize(
    ("value", "shown"), [(3.0819, "3.082"), (0.00002, "2.00e-05"), (12345.6, "12,346"), (7.0, "7"), (72.34, "72.3")]
)
def test_figures_are_short(value: float, shown: str) -> None:
    assert curves.figure(value) == shown


def test_the_headless_twin_tells_the_same() -> None:
    run, found = trained_run(done=True), whole(done=True)
    stage = curves.telling_stage(found, run)
    assert stage is not None and stage.name == "train"
    body = metrics_json(run, stage, found)
    assert body["curves"]["loss"]["steps"][-1] == 598
    assert body["acceptance"][0] == {
        "prompts": "stdlib",
        **ACCEPTANCE["stdlib"],
        "positions": curves.accepted(run)[0].positions,
    }
    text = metrics_text(run, stage, found, 100)
    assert "best" in text and "held out" in text and "2.894" in text
    assert all(len(line) <= 110 for line in text.splitlines())
