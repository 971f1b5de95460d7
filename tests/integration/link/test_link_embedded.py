"""The embedded host is reached as any host is, lives as long as its parent, and leaves ~/.ssh alone."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from faults.fake_host import FakeHost, py, until
from integration.link.observer import session
from sshd import process_tree

from remote.link.asker import RefusingAsker
from remote.link.embedded import EmbeddedHost
from remote.link.errors import AuthenticationFailed, HostKeyRefused
from remote.link.hosts import HostProfile
from remote.link.keys import Credentials, generate
from remote.link.paramiko_link import ParamikoLink, connect

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def embedded() -> Iterator[EmbeddedHost]:
    made = EmbeddedHost()
    yield made
    made.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose .ssh would be missed if it were read, and seen if it were written."""
    ssh = tmp_path / "home" / ".ssh"
    ssh.mkdir(parents=True)
    (ssh / "config").write_text("ThisIsNoOption yes\n")
    (ssh / "known_hosts").write_text("")
    monkeypatch.setenv("HOME", str(ssh.parent))
    return ssh.parent


def enter(embedded: EmbeddedHost) -> ParamikoLink:
    door = embedded.ensure()
    return connect(door.address, Path(os.devnull), RefusingAsker(), door.credentials, door.fingerprint)


def output(link: ParamikoLink, command: str) -> tuple[bytes, int | None, str]:
    stream = link.open_stream(command)
    found = b""
    while data := stream.read(65536, 30):
        found += data
    return found, stream.exit_status(), stream.stderr()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def profile(host: FakeHost) -> HostProfile:
    return HostProfile("demo", embedded=True, python=sys.executable, state=str(host.folder))


def test_commands_run_by_sh_with_their_status_and_both_outputs(embedded: EmbeddedHost) -> None:
    link = enter(embedded)
    assert output(link, "echo out; echo err >&2; exit 7") == (b"out\n", 7, "err\n")
    assert output(link, "kill -9 $$")[1] == 137
    assert output(link, "no-such-command-here")[1] == 127
    link.drop()


def test_input_and_output_are_whole(embedded: EmbeddedHost) -> None:
    link = enter(embedded)
    data = os.urandom(3 << 20)
    stream = link.open_stream("head -c 3145728")
    stream.write(data)
    found = b""
    while piece := stream.read(1 << 20, 30):
        found += piece
    assert found == data
    link.drop()


def test_a_session_with_a_stage_works_as_with_any_host(host: FakeHost, home: Path) -> None:
    run = host.start(py("extract", "print('hello from the stage')"))
    with session(profile(host)) as (made, seen):
        made.wait_connected(60)
        made.tail("log", run, "extract", 1)
        seen.until(lambda: seen.ended("log"), "the log's end")
        assert bytes(seen.logs["log"]) == b"hello from the stage\n"
        assert made.hello["uid"] == os.getuid()
    assert sorted(path.name for path in (home / ".ssh").iterdir()) == ["config", "known_hosts"]
    assert (home / ".ssh/known_hosts").read_text() == ""


def test_a_killed_server_is_started_again_and_the_stage_goes_on(host: FakeHost, tmp_path: Path) -> None:
    enough = tmp_path / "enough"
    script = (
        "import pathlib, time\n"
        f"while not pathlib.Path({str(enough)!r}).exists(): print('on', flush=True); time.sleep(.05)"
    )
    run = host.start(py("extract", script))
    with session(profile(host)) as (made, seen):
        seen.until(lambda: seen.times("connected"), "the first server")
        made.tail("log", run, "extract", 1)
        seen.until(lambda: seen.logs.get("log"))
        assert made._embedded is not None
        first = made._embedded.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        seen.until(lambda: seen.times("connected") == 2, "the next server")
        assert made._embedded.pid != first
        enough.touch()
        seen.until(lambda: seen.ended("log"), "the log's end")
        assert bytes(seen.logs["log"]) == Path(host.attempt(run, "extract").log).read_bytes()


def test_its_key_is_checked(embedded: EmbeddedHost) -> None:
    door = embedded.ensure()
    with pytest.raises(HostKeyRefused):
        connect(door.address, Path(os.devnull), RefusingAsker(), door.credentials, "SHA256:" + "A" * 43)


@pytest.mark.parametrize("who", ["another key", "another user", "no key"])
def test_nobody_else_gets_in(embedded: EmbeddedHost, who: str) -> None:
    door = embedded.ensure()
    address, credentials = door.address, door.credentials
    if who == "another key":
        credentials = Credentials(extra=(generate(),))
    elif who == "another user":
        address = dataclasses.replace(address, user="nobody")
    else:
        credentials = Credentials()
    with pytest.raises(AuthenticationFailed):
        connect(address, Path(os.devnull), RefusingAsker(), credentials, door.fingerprint)


def test_it_listens_on_loopback_only_and_gives_no_shell_and_no_forwarding(embedded: EmbeddedHost) -> None:
    link = enter(embedded)
    transport = link._transports[-1]
    port = str(f"{embedded.ensure().address.port:04X}")
    tables = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    listening = [line.split()[1] for line in tables.splitlines() if line.split()[3] == "0A"]
    assert [local for local in listening if local.endswith(":" + port)] == ["0100007F:" + port]
    channel = transport.open_session(timeout=10)
    with pytest.raises(paramiko.SSHException):
        channel.invoke_shell()
    channel = transport.open_session(timeout=10)
    with pytest.raises(paramiko.SSHException):
        channel.invoke_subsystem("sftp")
    with socket.create_server(("127.0.0.1", 0)) as target, pytest.raises(paramiko.ChannelException):
        transport.open_channel("direct-tcpip", target.getsockname(), ("127.0.0.1", 0), timeout=10)
    link.drop()


def test_commands_end_with_their_link_their_whole_group(embedded: EmbeddedHost) -> None:
    link = enter(embedded)
    stream = link.open_stream("trap '' HUP TERM; sleep 1000 & echo started; wait")
    assert stream.read(100, 30) == b"started\n"
    assert embedded.pid
    group = process_tree(embedded.pid)
    assert len(group) == 2
    link.drop()
    until(lambda: not any(alive(pid) for pid in group), "the command's end")
    assert alive(embedded.pid)


def test_it_ends_with_a_parent_that_was_killed_and_so_do_its_commands(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\n"
        "from remote.link.embedded import EmbeddedHost\nfrom remote.link.paramiko_link import connect\n"
        "from remote.link.asker import RefusingAsker\n"
        "host = EmbeddedHost(); door = host.ensure()\n"
        "link = connect(door.address, Path(os.devnull), RefusingAsker(), door.credentials, door.fingerprint)\n"
        "stream = link.open_stream('echo go; sleep 1000'); stream.read(10, 30)\n"
        "print(host.pid, flush=True); sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout
    server = int(parent.stdout.readline())
    everything = [server, *process_tree(server)]
    assert len(everything) >= 2
    parent.kill()
    parent.wait()
    until(lambda: not any(alive(pid) for pid in everything), "the server's end")
