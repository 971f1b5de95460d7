"""Curves of what stages report: bounded, the same for every reader, sent piece by piece."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from remote.agent import curves
from remote.agent.curves import CAPACITY, RunCurves
from remote.agent.events import Events
from remote.agent.layout import Run
from remote.views import CurveView
from remote.wire import from_wire


def report(run: Path, stage: str, attempt: int, *events: dict[str, Any]) -> None:
    file = run / stage / str(attempt) / "events.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as out:
        out.writelines(json.dumps({"kind": "metric", **event}) + "\n" for event in events)


def losses(first: int, last: int) -> list[dict[str, Any]]:
    return [{"name": "loss", "value": 1 / (1 + step), "step": step} for step in range(first, last)]


def ask(reader: RunCurves, have: dict[str, list[int]]) -> dict[str, CurveView]:
    """Every curve that is new, `have` brought up to date as the console does."""
    found: dict[str, CurveView] = {}
    more = True
    while more:
        answer = reader.answer(have)
        more = answer["more"]
        for wire in answer["curves"]:
            view = from_wire(CurveView, wire)
            found[view.key] = view
            have[view.key] = [view.stride, view.start + len(view.steps), view.reports + view.broken]
    return found


def test_only_what_is_new_is_sent_and_nothing_twice(tmp_path: Path) -> None:
    reader, have = RunCurves(Run(str(tmp_path))), {}
    report(tmp_path, "train", 1, *losses(0, 5), {"name": "shards", "value": 3})
    first = ask(reader, have)
    assert first["train/1/loss"].steps == (0, 1, 2, 3, 4)
    assert (first["train/1/shards"].steps, first["train/1/shards"].stepped) == ((0,), False)
    assert ask(reader, have) == {}
    report(tmp_path, "train", 1, *losses(5, 7))
    second = ask(reader, have)
    assert list(second) == ["train/1/loss"]
    assert (second["train/1/loss"].start, second["train/1/loss"].steps) == (5, (5, 6))


def test_another_agent_goes_on_where_the_console_is(tmp_path: Path) -> None:
    have: dict[str, list[int]] = {}
    report(tmp_path, "train", 1, *losses(0, 1000))
    ask(RunCurves(Run(str(tmp_path))), have)
    report(tmp_path, "train", 1, *losses(1000, 1100))
    (news,) = ask(RunCurves(Run(str(tmp_path))), have).values()
    (whole,) = ask(RunCurves(Run(str(tmp_path))), {}).values()
    assert news.start > 0
    assert whole.steps[news.start :] == news.steps


def test_a_long_curve_is_thinned_evenly_and_keeps_its_end(tmp_path: Path) -> None:
    report(tmp_path, "train", 1, *losses(0, 10_001))
    (view,) = ask(RunCurves(Run(str(tmp_path))), {}).values()
    assert CAPACITY / 2 <= len(view.steps) <= CAPACITY
    assert {b - a for a, b in zip(view.steps, view.steps[1:], strict=False)} == {view.stride}
    assert (view.reports, view.last_step) == (10_001, 10_000)


def test_a_thinned_curve_is_sent_whole_again(tmp_path: Path) -> None:
    reader, have = RunCurves(Run(str(tmp_path))), {}
    report(tmp_path, "train", 1, *losses(0, CAPACITY))
    ask(reader, have)
    report(tmp_path, "train", 1, *losses(CAPACITY, CAPACITY + 2))
    (view,) = ask(reader, have).values()
    assert (view.start, view.stride) == (0, 2)


def test_what_is_no_number_neither_hides_the_rest_nor_passes_in_silence(tmp_path: Path) -> None:
    bad = [{"name": "loss", "value": float("nan"), "step": 2}, {"name": "loss", "value": "x"}, {"value": 1}]
    report(tmp_path, "train", 1, *losses(0, 2), *bad, {"name": "loss", "value": 1, "step": float("inf")})
    (view,) = ask(RunCurves(Run(str(tmp_path))), {}).values()
    assert (view.steps, view.broken) == ((0, 1), 1)
    events = Events(str(tmp_path / "train" / "1" / "events.jsonl"))
    events.read()
    assert events.metrics == {"loss": 1.0}
    assert events.notes == ["loss was reported as nan"]


def test_names_without_end_stay_bounded(tmp_path: Path) -> None:
    report(tmp_path, "train", 1, *({"name": f"made_up_{i}", "value": i} for i in range(5000)))
    assert len(ask(RunCurves(Run(str(tmp_path))), {})) == curves.NAMES_KEPT


def test_many_attempts_come_in_several_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "POINTS", 10)
    for attempt in range(1, 6):
        report(tmp_path, "train", attempt, *losses(0, 8))
    reader = RunCurves(Run(str(tmp_path)))
    first = reader.answer({})
    assert first["more"] and len(first["curves"]) < 5
    assert len(ask(reader, {})) == 5
