"""What the agent costs a host while nothing happens: processor and memory, beside a bare Python."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.agent_link import AgentLink
from faults.fake_host import FakeHost, sh

from remote import protocol

SECONDS = 20.0


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FakeHost]:
    made = FakeHost(tmp_path)
    yield made
    made.clear()


def memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_idle_agent_beside_a_bare_python(host: FakeHost) -> None:
    """Idle as the console makes it: one run watched, its log followed, telemetry once a second."""
    link = AgentLink.to(host)
    bare = subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(600)"])
    try:
        settings = {"stages": [sh("quiet", "echo up; exec sleep 600")]}
        given = {"project": "bench", "switches": {}, "secrets": {}, "request_id": "bench"}
        run = link.ask(protocol.START, settings=settings, **given)["run"]
        link.ask(protocol.WATCH, run=run)
        link.ask(protocol.TELEMETRY, on=True, period=1.0)
        tail = {"tail": "log", "run": run, "stage": "quiet", "attempt": 1, "offset": 0, "follow": True}
        link.ask(protocol.TAIL, credit=1 << 20, **tail)
        began, before = time.monotonic(), processor(link.process.pid)
        while time.monotonic() < began + SECONDS:
            link.pump(time.monotonic() + 5)
        spent = (processor(link.process.pid) - before) / (time.monotonic() - began)
        ratio = memory(link.process.pid) / memory(bare.pid)
        print(
            f"\nidle agent: {spent:.2%} of a core; {memory(link.process.pid) >> 10} MiB, {ratio:.2f} of a bare Python"
        )
    finally:
        link.kill()
        bare.kill()
        bare.wait()
