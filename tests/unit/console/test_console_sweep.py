"""A sweep in the console: its table, its plot, and the way to a point's run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from console_pilot import SIZES, opened, screen_text, until
from console_sweep import BROKEN, DONE, RUNNING, SWEEP, WAITING, SweepSession

from console import sweep_command, sweep_report
from console.errors import UserError
from console.widgets.plots import CurvePlot
from remote import protocol


def test_what_is_served_decides_which_point_is_best() -> None:
    made = sweep_report.rows(SWEEP)
    assert [row.best for row in made] == [True, False, False, False]
    assert (made[0].served, made[0].loss, made[0].acceptance) == (2.9, 2.1, 2.9)
    assert [row.where for row in made] == ["done", "train 50%", "waiting", "did not begin"]
    assert sweep_report.headline(SWEEP) == "1 of 4 points done"
    assert not any(row.best for row in sweep_report.rows(replace(SWEEP, points=(WAITING, BROKEN))))
    assert not any(row.best for row in sweep_report.rows(replace(SWEEP, points=(DONE, WAITING))))


def test_the_headless_table_has_every_point_and_the_best() -> None:
    text = sweep_report.sweep_text(SWEEP)
    assert len(text.splitlines()) == 2 + 2 * len(SWEEP.points)
    assert "best" in text and "no space" in text and DONE.run in text
    assert sweep_report.sweep_json(SWEEP)["best"] == DONE.run


@pytest.mark.parametrize(
    ("axis", "text", "why"),
    [
        ("lr", "1e-3,x", "no list of numbers"),
        ("lr", "", "no list of numbers"),
        ("epochs", "1.5", "no list of whole numbers"),
        ("lr", "nan", "above 0 and different"),
        ("lr", "inf,1", "above 0 and different"),
        ("draft_vocabulary", "256,256", "above 0 and different"),
        ("ttt_steps", "0", "above 0 and different"),
    ],
)
def test_a_bad_axis_is_refused_in_one_sentence(axis: str, text: str, why: str) -> None:
    with pytest.raises(UserError, match=why) as refused:
        sweep_command._values(axis, text)
    assert f"--{axis.replace('_', '-')}" in str(refused.value)


@pytest.mark.parametrize("size", SIZES)
async def test_the_points_stand_beside_each_other_with_their_curves(size: tuple[int, int]) -> None:
    async with opened(SweepSession(), size) as (app, pilot):
        await pilot.press("w")
        await until(pilot, lambda: "0.002" in screen_text(app) and "over the data" in screen_text(app), "a sweep")
        assert app.view == "metrics"
        assert [plot for plot in app.query(CurvePlot) if plot.display]
        await pilot.press("w")
        await until(pilot, lambda: "metrics  train" in screen_text(app), "the run's own figures")


async def test_enter_goes_to_the_run_of_a_point() -> None:
    host = SweepSession()
    async with opened(host) as (app, pilot):
        await pilot.press("w")
        await until(pilot, lambda: "train 50%" in screen_text(app), "the sweep")
        await pilot.press("j", "enter")
        await until(pilot, lambda: app.snapshot.watching == RUNNING.run, "the point's run")
        assert app.view == "run"


async def test_a_project_without_a_sweep_says_how_to_start_one() -> None:
    host = SweepSession()
    host.sweep = None
    async with opened(host) as (app, pilot):
        await pilot.press("w")
        await until(pilot, lambda: "no sweep" in screen_text(app), "the reason")
        assert "start one" in screen_text(app)


async def test_the_host_is_asked_now_and_then_and_only_while_it_is_looked_at() -> None:
    host = SweepSession()
    async with opened(host) as (app, pilot):
        await pilot.press("w")
        await until(pilot, lambda: "train 50%" in screen_text(app), "the sweep")
        for _ in range(20):
            app._show()
        await pilot.pause(0.1)
        assert len(host.asked(protocol.SWEEPS)) == 1
        await pilot.press("1")
        app.live.sweep._due = 0.0
        app._show()
        await pilot.pause(0.1)
        assert len(host.asked(protocol.SWEEPS)) == 1
