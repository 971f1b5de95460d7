"""The metrics screen on a fake host: what it shows, and that it works only when something is new."""

from __future__ import annotations

import pytest
from console_pilot import SIZES, opened, screen_text, until
from console_training import STEPS, TrainingSession, latest, trained_run, training_events

from console.app import EyasApp
from console.screens.metrics import MetricsScreen
from console.widgets.plots import CurvePlot
from remote import protocol
from remote.protocol import RemoteError


def plots(app: EyasApp) -> list[CurvePlot]:
    return [plot for plot in app.query(CurvePlot) if plot.display]


@pytest.mark.parametrize("size", SIZES)
async def test_the_curves_are_there_at_every_size(size: tuple[int, int]) -> None:
    async with opened(TrainingSession(), size) as (app, pilot):
        await pilot.press("m")
        await until(pilot, lambda: plots(app) and "loss" in screen_text(app), "a plot")
        assert app.view == "metrics"
        assert "300/600" in screen_text(app)


async def test_nothing_is_asked_or_drawn_while_nothing_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    draw = CurvePlot._draw
    monkeypatch.setattr(CurvePlot, "_draw", lambda plot, *rest: (drawn.append(plot.id or ""), draw(plot, *rest))[1])
    host = TrainingSession()
    async with opened(host) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: plots(app) and app.snapshot.curves_of, "a plot")
        for _ in range(3):  # the plots find their height
            app._show()
            await pilot.pause(0.05)
        asked, before = len(host.asked(protocol.METRICS)), len(drawn)
        for _ in range(5):
            host.push_run()
            await pilot.pause(0.05)
        app._show()
        assert (len(host.asked(protocol.METRICS)), len(drawn)) == (asked, before)


async def test_new_figures_are_asked_for_and_only_what_is_new_travels() -> None:
    host = TrainingSession()
    async with opened(host) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: app.snapshot.curves, "the curves")
        host.report("train", training_events()[len(training_events(STEPS // 2)) :])
        host.run = trained_run(done=False, steps=STEPS)
        host.push_run()
        loss = lambda: app.snapshot.curves["train/1/loss"]  # noqa: E731
        await until(pilot, lambda: loss().last_step == STEPS - 2, "the rest of the curve")
        assert [1, 150, 150] in [asked["have"].get("train/1/loss") for asked in host.asked(protocol.METRICS)]
        assert len(loss().steps) == STEPS / 2
        await until(pilot, lambda: f"{STEPS}/{STEPS}" in screen_text(app), "the end of training")


async def test_the_cursor_chooses_the_plot_and_the_arrows_the_stage() -> None:
    async with opened(TrainingSession(done=True)) as (app, pilot):
        await pilot.press("m")
        await until(pilot, lambda: plots(app), "a plot")
        await pilot.press("j", "j")
        await until(pilot, lambda: "acceptance  3.04" in screen_text(app), "the plot of acceptance")
        await pilot.press("right")
        await until(pilot, lambda: "metrics  evaluate" in screen_text(app), "the figures of evaluate")
        assert not plots(app)
        await pilot.press("l", "h")
        await until(pilot, lambda: "metrics  train" in screen_text(app), "the figures of train")


async def test_served_and_simulated_acceptance_stand_beside_the_untrained() -> None:
    async with opened(TrainingSession(done=True)) as (app, pilot):
        await pilot.press("m")
        await until(pilot, lambda: "held out" in screen_text(app), "the table of acceptance")
        row = next(line for line in screen_text(app).splitlines() if "held out" in line)
        assert row.split()[2:5] == ["1.020", "2.906", "2.894"]


async def test_hostile_names_of_figures_and_prompts_are_only_text() -> None:
    host = TrainingSession(done=True)
    evil = "x\x1b]52;c;UFdORUQ=\x07[/]\x1b[5;5H"
    host.report("train", [{"kind": "metric", "name": f"{evil}_1", "value": v, "step": v} for v in (1, 2, 3)])
    assert host.run is not None
    stages = {stage.name: stage for stage in host.run.stages}
    stages["train"].metrics[f"{evil}_1"] = 3.0
    stages["evaluate"].metrics[f"acceptance/{evil}/served"] = 2.0
    async with opened(host, (200, 60)) as (app, pilot):
        await pilot.press("m")
        await until(pilot, lambda: "[/]" in screen_text(app), "the figure")
        text = screen_text(app)
        assert "\x1b" not in text and "\x07" not in text
        assert isinstance(app.current, MetricsScreen)


async def test_a_host_that_refuses_says_why() -> None:
    host = TrainingSession()
    host.refuse[protocol.METRICS] = RemoteError("unknown_op", "this agent does not know 'metrics'", "update Eyas")
    async with opened(host) as (app, pilot):
        await pilot.press("m")
        await until(pilot, lambda: "does not know" in screen_text(app), "the refusal")


async def test_ten_stages_and_eight_gpus_leave_the_log_in_sight() -> None:
    from console_fakes import sample

    host = TrainingSession()
    host.sample = sample(8)
    async with opened(host, (80, 24)) as (app, pilot):
        await until(pilot, lambda: "7 H200" in screen_text(app), "the GPUs")
        rows = screen_text(app).splitlines()
        title = next(place for place, row in enumerate(rows) if row.startswith("─ log"))
        assert len(rows) - title >= 6
        assert any("✔ 6 done" in row for row in rows)
        for name in ("train", "evaluate", "export"):
            assert any(row[3:].startswith(name) for row in rows)
        await pilot.press("g")
        assert any("provision" in row and "›" in row for row in screen_text(app).splitlines())


def test_latest_figures_are_those_of_the_last_step() -> None:
    assert latest(training_events())["lr"] < 2e-4
