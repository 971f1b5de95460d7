"""Opening the app on a fake host, and waiting for states, never for time."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from console_fakes import FAILED_LOG, LOG, PATCHES, FakeProject, FakeSession, failed_run, running_run, sample
from steady_pilot import SteadyPilot
from textual.pilot import Pilot

from console.app import EyasApp
from console.widgets.logview import LogView
from remote.views import RunView

SIZES = [(80, 24), (120, 40), (40, 10), (200, 60)]
NO_GPU = "NVML is not there: libnvidia-ml.so.1 not found"


def session(run: RunView | None, gpus: int = 0) -> FakeSession:
    made = FakeSession(run, PATCHES, FAILED_LOG if run and run.failed_stage else LOG)
    made.sample = sample(gpus, "" if gpus else NO_GPU)
    return made


def failed() -> FakeSession:
    return session(failed_run())


def running() -> FakeSession:
    return session(running_run(), 2)


def log_view(app: EyasApp) -> LogView:
    return app.current.query_one(LogView)


def screen_text(app: EyasApp) -> str:
    """What is on the screen now, row by row."""
    return "\n".join("".join(part.text for part in row) for row in app.screen._compositor.render_strips())


async def until(pilot: Pilot[None], condition: Callable[[], object], what: str) -> None:
    """Wait until a state is reached; generous, for the machine may be busy."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"{what} never came:\n{screen_text(pilot.app)}"  # type: ignore[arg-type]
        await pilot.pause(0.02)


async def settle(app: EyasApp, pilot: Pilot[None]) -> None:
    """Until nothing is being looked up any more and all of it is drawn."""
    browser = app.live.browser

    def settled() -> bool:
        wanted = app.live.snapshot.looking or browser._extension or browser._counting
        return not wanted and app.snapshot is app.live.snapshot

    await until(pilot, settled, "an answer that is drawn")
    await pilot.pause()


@asynccontextmanager
async def opened(
    host: FakeSession, size: tuple[int, int] = (80, 24), project: FakeProject | None = None, **options: object
) -> AsyncIterator[tuple[EyasApp, Pilot[None]]]:
    """The app on a fake host, once it has shown the run (or that there is none), its log and its patches."""
    app = EyasApp(project or FakeProject(), host.factory, clock=lambda: 100.0, **options)  # type: ignore[arg-type]
    async with app.run_test(size=size):
        pilot = SteadyPilot(app)

        def settled() -> bool:
            shown = app.snapshot
            log = shown.log.count > 0 if host.run else shown.runs_known
            return log and shown.patches is not None and not shown.pending and shown.link.phase == "connected"

        await until(pilot, settled, "the first Snapshot")
        await pilot.pause()
        yield app, pilot
