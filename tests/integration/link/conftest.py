"""A real OpenSSH server, and a host with real supervised stages behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.fake_host import FakeHost
from sshd import OpenSSHServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OpenSSHServer]:
    with OpenSSHServer(tmp_path / "server") as made:
        yield made


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FakeHost]:
    """Its state folder is `str(host.folder)`."""
    made = FakeHost(tmp_path / "stages")
    yield made
    made.clear()


@pytest.fixture(autouse=True)
def nobody_at_the_keyboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions go through the Asker: nothing of the link may read the console's terminal by itself."""

    def refuse(*_: object) -> str:
        raise AssertionError("the link called input() or getpass()")

    monkeypatch.setattr("builtins.input", refuse)
    monkeypatch.setattr("getpass.getpass", refuse)
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
