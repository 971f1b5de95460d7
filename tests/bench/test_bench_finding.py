"""From a stage writing an exception's last line to the finding on screen, beside one round trip to the agent."""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

from bench.figures import show

from console.app import EyasApp
from console.project import open_project
from remote import protocol
from remote.session import HostSession

FAKE_PYTHON = """#!/bin/sh
# Stands for a stage's Python: answers the plan, passes the check of the environment, then fails and notes when.
case "$*" in
-c*) echo /nowhere; exit 0 ;;
*try_environment*) echo "vllm 0.16.0"; echo "speculators 0.3.0"; exit 0 ;;
esac
i=0; while [ $i -lt 2000 ]; do echo "INFO line $i of a log"; i=$((i + 1)); done
echo "Traceback (most recent call last):"
echo '  File "stage.py", line 3, in main'
echo "    raise ValueError(1)"
echo "ValueError: bench"
date +%s.%N > "{stamp}"
sleep 600
"""
ROUNDS = 5


async def test_a_finding_is_on_screen_soon_after_its_last_line(tmp_path: Path) -> None:
    stamp, python = tmp_path / "stamp", tmp_path / "python"
    python.write_text(FAKE_PYTHON.format(stamp=stamp), encoding="utf-8")
    python.chmod(0o755)
    (tmp_path / "eyas.toml").write_text(
        f'project = "bench"\n[host.bench]\nembedded = true\n[host.bench.environment.seed]\npython = "{python}"\n',
        encoding="utf-8",
    )
    project = open_project(tmp_path)
    sessions: list[HostSession] = []

    def session(asker, on_link, on_push):  # type: ignore[no-untyped-def]
        sessions.append(HostSession(project.host, asker, on_link, on_push))
        return sessions[-1]

    taken, trips = [], []
    for _ in range(ROUNDS):
        stamp.unlink(missing_ok=True)
        app = EyasApp(project, session, start=True)
        async with app.run_test(size=(120, 40)) as pilot:
            deadline = time.monotonic() + 30
            while "ValueError: bench" not in screen(app):
                assert time.monotonic() < deadline, app.snapshot
                await asyncio.sleep(0.01)
            taken.append(time.time() - float(stamp.read_text()))
            for _ in range(20):
                began = time.perf_counter()
                await asyncio.to_thread(sessions[-1].request, protocol.PING)
                trips.append(time.perf_counter() - began)
            run = app.snapshot.watching
            await asyncio.to_thread(sessions[-1].request, protocol.STOP, run=run)
            await pilot.pause()
    show("finding on screen", taken, statistics.median(trips), "one round trip to the agent")


def screen(app: EyasApp) -> str:
    """What the run view shows of findings: the line of the last error, not the log (which is faster)."""
    stages = app.snapshot.run.stages if app.snapshot.run else ()
    return " ".join(t.headline for stage in stages for t in stage.findings.tracebacks)
