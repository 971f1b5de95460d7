"""The bootstrap conversation with a far end that the test plays: greetings, versions, and what comes right behind."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from unit.link.far_end import FarEnd, SocketStream

from remote.bundle import Bundle
from remote.link.bootstrap import bootstrap
from remote.link.errors import BootstrapFailed, VersionRefused
from remote.link.hosts import HostProfile

CARGO = Bundle(b"roll", "d" * 64, b"packed")
PROFILE = HostProfile("b200", "gpu")


class Host:
    """A Link whose one command is answered by the test's own words after RUN."""

    def __init__(self, *lines: bytes) -> None:
        self.far = FarEnd()
        self.command = ""
        self._lines = lines

    def open_stream(self, command: str) -> SocketStream:
        self.command = command
        threading.Thread(target=self._play, daemon=True).start()
        return self.far.near

    def is_open(self) -> bool:
        return True

    def drop(self) -> None:
        self.far.drop()

    def _play(self) -> None:
        stage_one = self.far._lines.readline()
        found = re.search(rb"boot\([^0-9a-f]*([0-9a-f]{32})", stage_one)
        assert found
        self.far.say_bytes(b"noise\n%s HAVE\n%s RUN\n" % (found[1], found[1]) + b"".join(self._lines))


def hello(version: int, oldest: int) -> bytes:
    return b'{"ev":"hello","version":%d,"min_version":%d}\n' % (version, oldest)


def test_what_comes_right_behind_the_hello_is_the_clients() -> None:
    stream, greeting = bootstrap(Host(hello(1, 1), b'{"ev":"beat"}\n{"ev":'), PROFILE, cargo=CARGO)
    assert greeting["version"] == 1
    assert stream.read(100, 60) == b'{"ev":"beat"}\n{"ev":'


def test_a_newer_agent_that_still_speaks_our_version_is_taken() -> None:
    assert bootstrap(Host(hello(7, 1)), PROFILE, cargo=CARGO)[1]["version"] == 7


@pytest.mark.parametrize(("version", "oldest"), [(7, 2), (0, 0)])
def test_an_agent_without_a_common_version_is_refused(version: int, oldest: int) -> None:
    with pytest.raises(VersionRefused, match=f"speaks protocol {oldest} to {version}"):
        bootstrap(Host(hello(version, oldest)), PROFILE, cargo=CARGO)


@pytest.mark.parametrize("greeting", [b"hi\n", b"[]\n", b'{"ev":"beat"}\n', b"\n"])
def test_anything_but_a_hello_is_refused(greeting: bytes) -> None:
    with pytest.raises(BootstrapFailed, match="does not greet"):
        bootstrap(Host(greeting), PROFILE, cargo=CARGO)


def test_the_command_is_shell_neutral_and_holds_nothing_but_the_python() -> None:
    host: Any = Host(hello(1, 1))
    bootstrap(host, HostProfile("b200", "gpu", python="/opt/py/bin/python3.11"), cargo=CARGO)
    assert host.command == 'exec /opt/py/bin/python3.11 -Iu -c "import sys;exec(sys.stdin.buffer.readline())"'
