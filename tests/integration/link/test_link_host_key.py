"""No byte of ours goes to a server whose key is not the host's: unknown asks, changed refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from integration.link.observer import Operator, session
from link_proxy import LinkProxy
from sshd import OpenSSHServer, make_key

from remote.link.errors import HostKeyRefused

pytestmark = pytest.mark.openssh


def shown(server: OpenSSHServer) -> str:
    """The key's fingerprint, in ssh-keygen's words."""
    public = server.host_key.with_suffix(".pub")
    return subprocess.run(["ssh-keygen", "-l", "-f", str(public)], capture_output=True, text=True).stdout.split()[1]


def test_an_unknown_key_is_asked_about_once_and_then_known(server: OpenSSHServer) -> None:
    profile = server.profile(known=False)
    operator = Operator(lambda question: "yes")
    for _ in range(2):
        with session(profile, operator) as (made, _seen):
            made.wait_connected(60)
    (question,) = operator.questions
    assert question.kind == "host_key"
    assert question.details["fingerprint"] == shown(server)
    assert question.details["port"] == str(server.port)
    assert f"[127.0.0.1]:{server.port} " in profile.known_hosts.read_text()
    assert not (server.folder / "users_known_hosts").exists(), "the user's own file is only read"


def test_without_an_operator_an_unknown_key_is_refused_once(server: OpenSSHServer) -> None:
    with LinkProxy(server.port) as proxy, session(server.profile(known=False, port=proxy.port)) as (made, seen):
        with pytest.raises(HostKeyRefused, match="not on record"):
            made.wait_connected(60)
        seen.until(lambda: seen.phases == ["connecting", "refused"])
        assert proxy.accepted == 1


def test_a_changed_key_is_refused_on_reconnect_and_never_asked_about(server: OpenSSHServer) -> None:
    operator = Operator(lambda question: "yes")
    profile = server.profile()
    with session(profile, operator) as (made, seen):
        made.wait_connected(60)
        server.swap_host_key()
        server.kill_sessions()
        seen.until(lambda: seen.phases[-1] == "refused", "the refusal")
        assert "has changed" in seen.states[-1].detail
        assert f"ssh-keygen -R '[127.0.0.1]:{server.port}' -f '{profile.known_hosts}'" in seen.states[-1].remedy
        with pytest.raises(HostKeyRefused):
            made.wait_connected(60)
    assert operator.questions == []


def test_the_user_s_own_record_counts(server: OpenSSHServer) -> None:
    server.know(server.folder / "users_known_hosts")
    with session(server.profile(known=False)) as (made, _seen):
        made.wait_connected(60)


def test_the_expected_fingerprint_takes_the_operator_s_place(server: OpenSSHServer) -> None:
    with session(server.profile(known=False, expected_fingerprint=shown(server))) as (made, _seen):
        made.wait_connected(60)
    other = "SHA256:" + "A" * 43
    with (
        session(server.profile(known=True, expected_fingerprint=other)) as (made, _seen),
        pytest.raises(HostKeyRefused, match="expects"),
    ):
        made.wait_connected(60)


def test_a_host_with_several_keys_shows_the_one_on_record(tmp_path: Path) -> None:
    rsa = make_key(tmp_path / "rsa", "rsa")
    with OpenSSHServer(tmp_path / "server", extra=f"HostKey {rsa}\n") as server:
        profile = server.profile()
        kind, key = rsa.with_suffix(".pub").read_text().split()[:2]
        profile.known_hosts.write_text(f"[127.0.0.1]:{server.port} {kind} {key}\n")
        with session(profile) as (made, _seen):
            made.wait_connected(60)


def test_a_revoked_key_is_refused_although_it_is_known(server: OpenSSHServer) -> None:
    profile = server.profile()
    kind, key = server.host_key.with_suffix(".pub").read_text().split()[:2]
    with profile.known_hosts.open("a") as file:
        file.write(f"@revoked * {kind} {key}\n")
    with session(profile) as (made, _seen), pytest.raises(HostKeyRefused, match="revoked"):
        made.wait_connected(60)
