"""A log of 200 MB on a real host: what travels is what is on screen and a little around it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faults.fake_host import FakeHost
from link_proxy import LinkProxy
from sshd import OpenSSHServer
from steady_pilot import SteadyPilot
from textual.pilot import Pilot
from textual.widgets import Input

from console.app import EyasApp
from console.widgets.logview import LogView
from remote.agent.log_findings import KEEP_EVERY
from remote.session import HostSession

pytestmark = pytest.mark.openssh

RUN = "20260101T000000Z-00000000"
COUNT = 1_250_000
ERROR_AT = 777_777
NEEDLE_AT = 1_000_000
BROKEN = b'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    f()\nValueError: in the middle\n'


def line(n: int) -> bytes:
    head = b"(Worker_TP%d pid=%d) INFO 11-29 %02d:%02d:%02d [model_runner.py:5274] step %07d"
    return (
        head % (n % 8, 4000 + n % 8, n // 54000, n // 900 % 60, n // 15 % 60, n) + b" of a log that goes on and on" * 3
    )


@pytest.fixture
def log(host: FakeHost) -> Path:
    folder = host.folder / "runs" / RUN / "extract" / "1"
    folder.mkdir(parents=True)
    described = {"v": 1, "run": RUN, "project": "big", "plan": [{"name": "extract", "title": "hidden states"}]}
    (folder.parents[1] / "run.json").write_text(json.dumps(described))
    path = folder / "stdout.log"
    with path.open("wb") as out:
        for start in range(0, COUNT, 50_000):
            lines = [line(n) for n in range(start, start + 50_000)]
            if start <= ERROR_AT < start + 50_000:
                lines[ERROR_AT - start] = BROKEN[:-1]
            if start <= NEEDLE_AT < start + 50_000:
                lines[NEEDLE_AT - start] = b"the needle"
            out.write(b"\n".join(lines) + b"\n")
    assert path.stat().st_size > 200_000_000
    return path


class Reader:
    """The console on that log, and what came over the link for it."""

    def __init__(self, app: EyasApp, pilot: Pilot[None], proxy: LinkProxy) -> None:
        self.app, self.pilot, self.proxy = app, pilot, proxy

    @property
    def view(self) -> LogView:
        return self.app.current.query_one(LogView)

    def top(self) -> str:
        return self.view.window.row(self.view.top).text

    def marked(self) -> str:
        return "" if self.view.marked is None else self.view.window.row(self.view.marked).text

    async def until(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, f"{what} never came; {self.app.snapshot.link}, {self.top()!r}"
            await self.pilot.pause(0.05)

    async def press(self, *keys: str, then: Callable[[], object], what: str) -> int:
        """Bytes that came over the link until that is on screen."""
        before = self.proxy.forwarded
        await self.pilot.press(*keys)
        await self.until(then, what)
        return self.proxy.forwarded - before


@asynccontextmanager
async def reading(server: OpenSSHServer, host: FakeHost) -> AsyncIterator[Reader]:
    with LinkProxy(server.port) as proxy:
        profile = server.profile(state=str(host.folder), port=proxy.port)
        project = SimpleNamespace(
            name="big",
            host=profile,
            set_switch=lambda *_: None,
            start_params=lambda: {"project": "big", "settings": {}, "switches": {}, "secrets": {}},
        )

        def factory(asker: Any, on_link: Any, on_push: Any) -> HostSession:
            return HostSession(profile, asker, on_link, on_push)

        app = EyasApp(project, factory)
        async with app.run_test(size=(200, 60)):
            yield Reader(app, SteadyPilot(app), proxy)


async def test_reading_all_over_a_large_log_moves_little_of_it(
    server: OpenSSHServer, host: FakeHost, log: Path
) -> None:
    async with reading(server, host) as reader:
        await reader.press("2", then=lambda: reader.view.window.count >= 58, what="the end of the log")
        assert reader.view.window.row(reader.view.window.count - 1).text == line(COUNT - 1).decode()
        found = {}
        found["start"] = await reader.press("g", then=lambda: reader.top() == line(0).decode(), what="the start")
        number = ERROR_AT - 100_000
        found["line"] = await reader.press(
            "J", *str(number + 1), "enter", then=lambda: reader.marked() == line(number).decode(), what="a line"
        )
        place, before = reader.view.place, reader.proxy.forwarded
        for _ in range(10):
            await reader.press("pageup", then=lambda: not reader.app.live.browser._extension, what="the page")
        assert reader.view.place < place - 50_000
        found["pages"] = reader.proxy.forwarded - before
        found["error"] = await reader.press(
            "e", then=lambda: reader.marked() == "Traceback (most recent call last):", what="the error"
        )
        found["time"] = await reader.press(
            "J", *"05:00:01", "enter", then=lambda: " 05:00:01 " in reader.marked(), what="a time"
        )
        await reader.pilot.press("slash")
        reader.app.screen.query_one(Input).value = "the needle"
        found["search"] = await reader.press("enter", then=lambda: reader.marked() == "the needle", what="the needle")
        found["end"] = await reader.press("G", then=lambda: reader.view.following, what="the end")
        print(f"\n{found}, in all {reader.proxy.forwarded} bytes of {log.stat().st_size}")
        assert max(found.values()) < 300_000
        assert reader.proxy.forwarded < log.stat().st_size / 100


async def test_who_connects_again_does_not_read_the_log_anew(server: OpenSSHServer, host: FakeHost, log: Path) -> None:
    state = log.with_name("reader.state")

    def kept() -> int:
        return int(json.loads(state.read_bytes().partition(b"\n")[0])["offset"]) if state.exists() else 0

    async with reading(server, host) as reader:
        await reader.until(lambda: kept() >= 3 * KEEP_EVERY, "a state near the end")
        first = sum(map(bytes_read, server.commands()))
    async with reading(server, host) as reader:
        await reader.until(lambda: "ValueError: in the middle" in screen_text(reader.app), "the error")
        second = sum(map(bytes_read, server.commands()))
    print(f"\nthe first agent read {first} bytes, the second {second}")
    assert first > 3 * KEEP_EVERY
    assert second < 1.5 * KEEP_EVERY


def screen_text(app: EyasApp) -> str:
    return "\n".join("".join(part.text for part in row) for row in app.screen._compositor.render_strips())


def bytes_read(pid: int) -> int:
    """What a process has asked to read so far."""
    return int(re.findall(r"rchar: (\d+)", Path(f"/proc/{pid}/io").read_text())[0])
