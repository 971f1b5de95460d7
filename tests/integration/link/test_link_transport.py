"""One connection: what it agrees on, what it notices by itself, and what its streams keep."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sshd import OpenSSHServer

from remote.link.asker import RefusingAsker
from remote.link.errors import LinkError, LinkLost, Unreachable
from remote.link.hosts import resolve
from remote.link.keys import Credentials
from remote.link.paramiko_link import STDERR_KEPT, ParamikoLink, connect

pytestmark = pytest.mark.openssh


def reach(server: OpenSSHServer) -> ParamikoLink:
    profile = server.profile()
    address = resolve(profile.ssh or "", profile.ssh_config)
    return connect(address, profile.known_hosts, RefusingAsker(), Credentials())


@pytest.fixture
def link(server: OpenSSHServer) -> Iterator[ParamikoLink]:
    made = reach(server)
    yield made
    made.drop()


def test_the_fast_cipher_is_agreed_on(link: ParamikoLink) -> None:
    assert link._transports[0].remote_cipher == "aes128-gcm@openssh.com"


@pytest.mark.parametrize("weak", ["Ciphers aes128-cbc,3des-cbc", "MACs hmac-sha1\nCiphers aes128-ctr"])
def test_a_server_with_weak_algorithms_only_is_refused(tmp_path: Path, weak: str) -> None:
    with OpenSSHServer(tmp_path / "server", extra=weak + "\n") as server, pytest.raises(LinkError) as refused:
        reach(server)
    assert "no algorithm in common" in refused.value.message
    assert not refused.value.retry


def test_the_kernel_watches_the_peer(link: ParamikoLink) -> None:
    raw = link._transports[0].raw
    assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 9000


def test_a_flood_of_standard_error_does_not_hold_up_the_output_and_its_end_is_kept(link: ParamikoLink) -> None:
    stream = link.open_stream("head -c 8000000 /dev/zero | tr '\\0' e >&2; echo; echo the end >&2; echo done; exit 4")
    found, patience = b"", time.monotonic() + 60
    while b"done" not in found:
        assert time.monotonic() < patience, "the flood holds the output up"
        try:
            found += stream.read(100, 0.5)
        except TimeoutError:
            continue
    assert stream.read(100, 60) == b""
    assert stream.exit_status() == 4
    assert stream.stderr().endswith("ethe end\n")
    assert len(stream.stderr()) == STDERR_KEPT
    assert "status 4" in stream.why_closed()


def test_a_read_that_finds_nothing_says_so_and_the_stream_goes_on(link: ParamikoLink) -> None:
    stream = link.open_stream("read line; echo got $line")
    with pytest.raises(TimeoutError):
        stream.read(100, 0.1)
    stream.write(b"it\n")
    assert stream.read(100, 60) == b"got it\n"


def test_bytes_given_back_come_first(link: ParamikoLink) -> None:
    stream = link.open_stream("echo world")
    stream.unread(b"hello ")
    assert stream.read(3, 60) + stream.read(100, 60) == b"hello "
    assert stream.read(100, 60) == b"world\n"


def test_writing_to_a_command_that_ended_fails(link: ParamikoLink) -> None:
    stream = link.open_stream("exec true")
    assert stream.read(100, 60) == b""
    with pytest.raises(OSError, match="closed"):
        for _ in range(1000):
            stream.write(b"x" * 65536)


def test_a_dropped_link_ends_its_streams(server: OpenSSHServer, link: ParamikoLink) -> None:
    stream = link.open_stream("cat")
    link.drop()
    assert stream.read(100, 60) == b""
    assert not link.is_open()
    with pytest.raises(LinkLost):
        link.open_stream("true")


def test_something_that_is_no_ssh_server_is_told(server: OpenSSHServer) -> None:
    profile = server.profile()
    server.kill_listener()
    address = resolve(profile.ssh or "", profile.ssh_config)
    with socket.create_server(("127.0.0.1", server.port)) as other:
        other.settimeout(60)

        def answer() -> None:
            peer, _ = other.accept()
            peer.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            peer.close()

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(Unreachable, match="does not complete the SSH greeting"):
            connect(address, profile.known_hosts, RefusingAsker(), Credentials())
