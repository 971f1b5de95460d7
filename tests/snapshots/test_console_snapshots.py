"""How the console looks: a few pictures, with the clock, the theme and the host held still."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from console_fakes import FakeProject, FakeSession, running_run, sample
from console_pilot import failed, session, settle, until
from console_sweep import SweepSession
from console_training import TrainingSession
from steady_pilot import SteadyPilot
from textual.pilot import Pilot

from console.app import EyasApp
from console.replay import Recording, ReplaySession
from console.store import Snapshot
from remote.logs.reader import LogReader

SIZES = [pytest.param((80, 24), id="80x24"), pytest.param((200, 60), id="200x60")]
RECORDED = Path(__file__).parents[1] / "data" / "gpu"


@pytest.fixture(autouse=True)
def held_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    for name in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_COLOR_SYSTEM"):
        monkeypatch.delenv(name, raising=False)


def still_app(factory: Any) -> EyasApp:
    app = EyasApp(FakeProject(), factory, clock=lambda: 100.0)
    app.theme = "textual-dark"
    app.animation_level = "none"
    return app


def settled(
    *keys: str, ready: Callable[[Snapshot], object], training: TrainingSession | None = None
) -> Callable[[Pilot[None]], Any]:
    async def run_before(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, EyasApp)
        await until(pilot, lambda: ready(app.snapshot) and not app.snapshot.pending, "the Snapshot")
        steady = SteadyPilot(app)
        for key in keys:
            await steady.press(key)
            if training is not None:
                await until(pilot, lambda: training.all_told(app.snapshot.curves), "the curves")
        await settle(app, steady)

    return run_before


def told(snapshot: Snapshot) -> object:
    return snapshot.log.count and snapshot.patches is not None and snapshot.telemetry is not None


def compare(snap_compare: Any, host: FakeSession, size: tuple[int, int], *keys: str) -> bool:
    run_before = settled(*keys, ready=told)
    return bool(snap_compare(still_app(host.factory), terminal_size=size, run_before=run_before))


@pytest.mark.parametrize("size", SIZES)
def test_a_run_under_way_on_eight_gpus(snap_compare: Any, size: tuple[int, int]) -> None:
    assert compare(snap_compare, session(running_run(), 8), size)


@pytest.mark.parametrize("size", SIZES)
def test_a_failed_run_on_a_host_without_gpu(snap_compare: Any, size: tuple[int, int]) -> None:
    assert compare(snap_compare, failed(), size)


@pytest.mark.parametrize("size", SIZES)
def test_the_log_with_its_line_numbers(snap_compare: Any, size: tuple[int, int]) -> None:
    assert compare(snap_compare, failed(), size, "2")


@pytest.mark.parametrize("size", SIZES)
def test_the_traceback_and_the_way_to_its_patch(snap_compare: Any, size: tuple[int, int]) -> None:
    assert compare(snap_compare, failed(), size, "t")


@pytest.mark.parametrize("size", SIZES)
def test_the_patch_that_mends_it(snap_compare: Any, size: tuple[int, int]) -> None:
    assert compare(snap_compare, failed(), size, "t", "p")


@pytest.mark.parametrize("size", SIZES)
def test_training_under_way_with_its_curves(snap_compare: Any, size: tuple[int, int]) -> None:
    host = TrainingSession()
    run_before = settled("m", ready=told, training=host)
    assert snap_compare(still_app(host.factory), terminal_size=size, run_before=run_before)


@pytest.mark.parametrize("size", SIZES)
def test_acceptance_once_a_draft_is_evaluated(snap_compare: Any, size: tuple[int, int]) -> None:
    host = TrainingSession(done=True)
    run_before = settled("m", "j", "j", ready=told, training=host)
    assert snap_compare(still_app(host.factory), terminal_size=size, run_before=run_before)


def test_the_points_of_a_sweep(snap_compare: Any) -> None:
    ready = settled("w", ready=told)

    async def run_before(pilot: Pilot[None]) -> None:
        await ready(pilot)
        app = pilot.app
        assert isinstance(app, EyasApp)
        await until(pilot, lambda: app.snapshot.sweep, "the sweep")
        await settle(app, SteadyPilot(app))

    assert snap_compare(still_app(SweepSession().factory), terminal_size=(80, 24), run_before=run_before)


def test_ten_stages_above_eight_gpus(snap_compare: Any) -> None:
    host = TrainingSession()
    host.sample = sample(8)
    assert compare(snap_compare, host, (80, 24))


def test_two_h200s_as_recorded_half_way_through_the_load(snap_compare: Any) -> None:
    whole = Recording.load(RECORDED / "nvml_c.jsonl.gz", RECORDED / "tp2_hs.jsonl.gz")
    samples = tuple(sample for sample in whole.samples if sample[0] <= 12)
    half = replace(whole, samples=samples, lines=tuple(line for line in whole.lines if line[0] <= 12))
    reader = LogReader()

    def read(data: bytes) -> Any:
        reader.feed(data)
        return reader.findings()

    app = still_app(ReplaySession.factory(half, speed=1e6, read=read))
    ready = settled(ready=lambda s: s.log.ended and s.log.count == len(half.lines) and s.patches is not None)
    assert snap_compare(app, terminal_size=(80, 24), run_before=ready)
