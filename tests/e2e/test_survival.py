"""What a run survives, against a real OpenSSH server: the link, the agent and the console killed while it goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sshd import OpenSSHServer
from terminal import Terminal
from workstation import EYAS, Workstation

pytestmark = [pytest.mark.engine, pytest.mark.openssh, pytest.mark.terminal]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OpenSSHServer]:
    """A host whose stage environments come from this user's cache: making them anew would take minutes."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    with OpenSSHServer(tmp_path / "host", env={"XDG_CACHE_HOME": cache}) as server:
        yield server


def make_project(workstation: Workstation, server: OpenSSHServer) -> None:
    server.know(server.folder / "users_known_hosts")
    (workstation.folder / "eyas.toml").write_text(
        f'project = "survival"\n[host.box]\nssh = "gpu"\nssh_config = "{server.ssh_config()}"\n'
        '[run]\ntarget = "tiny"\nsamples = 16\nmax_length = 256\nuntil = "extract"\n[stage.target]\nsteps = 40\n',
        encoding="utf-8",
    )


def new_agents(server: OpenSSHServer, before: set[int]) -> set[int]:
    """Pids of agents that came up after those of `before`: the console and the follower are back."""
    deadline = time.monotonic() + 60
    while len(found := set(server.commands()) - before) < 2:
        assert time.monotonic() < deadline, f"no new agents after {before}: {found}"
        time.sleep(0.1)
    return found


def test_the_link_the_agent_and_the_console_are_killed_mid_load_and_nothing_is_lost(
    make_workstation: Callable[..., Workstation], server: OpenSSHServer
) -> None:
    workstation = make_workstation("survival")
    make_project(workstation, server)
    copy = workstation.folder / "extract.log"
    with Terminal([EYAS], 120, 40, workstation.env, workstation.folder) as terminal:
        terminal.wait_for("connected")
        terminal.press("R", "Enter")
        terminal.wait_for("▶ extract", timeout=900)
        with copy.open("wb") as out:
            follower = subprocess.Popen(
                [EYAS, "logs", "extract", "--follow", "--raw"],
                env={**os.environ, **workstation.env},
                cwd=workstation.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
            )
        agents = new_agents(server, before=set())
        assert server.kill_sessions()
        agents = new_agents(server, before=agents)
        for pid in agents:
            os.kill(pid, signal.SIGKILL)
        new_agents(server, before=agents)
        terminal.wait_for("connected", "▶ extract")
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.wait_ended()

    with Terminal([EYAS], 120, 40, workstation.env, workstation.folder) as terminal:
        terminal.wait_for("✔ extract", timeout=300)
        terminal.press("q")
        terminal.wait_ended()

    assert follower.wait(60) == 0
    run = workstation.json("status")
    assert run["state"] == "done"
    extract = run["stages"][-1]
    assert [(a["state"], a["rc"]) for a in extract["attempts"]] == [("exited", 0)]
    log = Path(run["folder"]) / "extract" / "1" / "stdout.log"
    assert copy.read_bytes() == log.read_bytes()


def test_a_stop_ends_the_engine_and_its_workers(
    make_workstation: Callable[..., Workstation], server: OpenSSHServer
) -> None:
    """K asks first, with Cancel under the cursor; then the whole process tree goes, and the run says stopped."""
    workstation = make_workstation("stop")
    make_project(workstation, server)
    with Terminal([EYAS], 80, 24, workstation.env, workstation.folder) as terminal:
        terminal.wait_for("connected")
        terminal.press("R", "Enter")
        terminal.wait_for("▶ target", timeout=900)
        terminal.press("K")
        terminal.wait_for("Cancel")
        terminal.press("Enter")
        terminal.wait_for("▶ target", absent=["Cancel"])
        terminal.press("K")
        terminal.wait_for("Cancel")
        terminal.press("Tab", "Enter")
        terminal.wait_for("stopped", timeout=120)
        terminal.press("q")
        terminal.wait_ended()
    run = workstation.json("status")
    assert run["state"] == "stopped"
    status = json.loads((Path(run["folder"]) / "target" / "1" / "status.json").read_text(encoding="utf-8"))
    assert status["clean"] is True
    assert [s["state"] for s in run["stages"]] == ["done", "stopped", "waiting", "waiting"]
