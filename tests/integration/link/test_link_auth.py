"""Getting in: keys, passphrases, passwords and second factors go through the Asker; a refusal is final."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from integration.link.login_server import LoginServer
from integration.link.observer import Operator, session
from link_proxy import LinkProxy
from sshd import OpenSSHServer, make_key

from remote.link.asker import Asker, Question, RefusingAsker
from remote.link.errors import AuthenticationFailed, Unreachable
from remote.link.hosts import HostProfile, resolve
from remote.link.keys import Credentials
from remote.link.paramiko_link import connect

pytestmark = pytest.mark.openssh


def log_in(profile: HostProfile, asker: Asker | None = None, credentials: Credentials | None = None) -> None:
    """One login and good-bye."""
    address = resolve(profile.ssh or "", profile.ssh_config)
    link = connect(address, profile.known_hosts, asker or RefusingAsker(), credentials or Credentials())
    assert link.is_open()
    link.drop()


def answers(**by_kind: str | None) -> Operator:
    return Operator(lambda question: by_kind[question.kind])


@contextmanager
def key_agent(folder: Path) -> Iterator[dict[str, str]]:
    """A real ssh-agent of its own: the environment in which it is found."""
    socket_path = folder / "agent.sock"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket_path)], stdout=subprocess.DEVNULL)
    try:
        while not socket_path.exists():
            assert agent.poll() is None
        yield {**os.environ, "SSH_AUTH_SOCK": str(socket_path)}
    finally:
        agent.terminate()
        agent.wait()


# Keys ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_every_kind_of_plain_key_opens(server: OpenSSHServer, tmp_path: Path, kind: str) -> None:
    key = make_key(tmp_path / "key", kind)
    server.authorize(key)
    log_in(server.profile(key=key))


@pytest.mark.parametrize("kind", ["ed25519", "rsa"])
def test_a_passphrase_is_asked_for_and_remembered_for_the_session(
    server: OpenSSHServer, tmp_path: Path, kind: str
) -> None:
    key = make_key(tmp_path / "key", kind, "open sesame")
    server.authorize(key)
    operator = answers(passphrase="open sesame")
    with session(server.profile(key=key), operator) as (made, seen):
        made.wait_connected(60)
        seen.until(lambda: seen.times("connected") == 1)
        server.kill_sessions()
        seen.until(lambda: seen.times("connected") == 2, "the next link")
    (question,) = operator.questions
    assert question.secret
    assert str(key) in question.text


def test_a_wrong_passphrase_is_asked_again_and_then_the_key_is_left_out(server: OpenSSHServer, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", passphrase="open sesame")
    server.authorize(key)
    wrong_once = iter(["nonsense", "open sesame"])
    operator = Operator(lambda question: next(wrong_once))
    log_in(server.profile(key=key), operator)
    assert "does not open it" in operator.questions[1].text
    with pytest.raises(AuthenticationFailed, match="3 passphrases, and none opens it"):
        log_in(server.profile(key=key), answers(passphrase="nonsense"))


def test_without_an_operator_a_locked_key_fails_with_its_name(server: OpenSSHServer, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", passphrase="open sesame")
    server.authorize(key)
    with pytest.raises(AuthenticationFailed, match=f"{key}: no passphrase given"):
        log_in(server.profile(key=key))


def test_no_passphrase_is_asked_for_while_a_plain_key_opens(server: OpenSSHServer, tmp_path: Path) -> None:
    locked = make_key(tmp_path / "locked", passphrase="open sesame")
    profile = server.profile(key=locked)
    assert profile.ssh_config
    with profile.ssh_config.open("a") as config:
        config.write(f"  IdentityFile {server.user_key}\n")
    log_in(profile, Operator(lambda question: pytest.fail("a question was asked")))


def test_a_file_that_is_no_key_is_named(server: OpenSSHServer, tmp_path: Path) -> None:
    junk = tmp_path / "junk"
    junk.write_text("not a key\n")
    with pytest.raises(AuthenticationFailed, match=f"{junk} cannot be used: not a private key"):
        log_in(server.profile(key=junk))


def test_a_key_that_the_host_does_not_know_is_final_after_one_connection(server: OpenSSHServer, tmp_path: Path) -> None:
    stranger = make_key(tmp_path / "stranger")
    with LinkProxy(server.port) as proxy, session(server.profile(port=proxy.port, key=stranger)) as (made, seen):
        with pytest.raises(AuthenticationFailed, match=f"it wants publickey .offered: {stranger}"):
            made.wait_connected(60)
        seen.until(lambda: seen.phases == ["connecting", "refused"])
        assert f"ssh -p {proxy.port}" in seen.states[-1].remedy
        assert proxy.accepted == 1


def test_of_eight_agent_keys_the_one_of_the_identity_file_is_offered(
    server: OpenSSHServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # sshd closes the connection at the sixth failure: offering them all in turn would never get in.
    with key_agent(tmp_path) as env:
        keys = [make_key(tmp_path / f"k{number}") for number in range(8)]
        for key in keys:
            subprocess.run(["ssh-add", "-q", str(key)], env=env, check=True)
        server.authorize(keys[7])
        keys[7].unlink()  # only the agent holds it; its .pub file says which one is meant
        monkeypatch.setenv("SSH_AUTH_SOCK", env["SSH_AUTH_SOCK"])
        profile = server.profile(key=keys[7])
        assert profile.ssh_config
        text = profile.ssh_config.read_text().replace("  IdentityAgent none\n", "")
        profile.ssh_config.write_text(text)
        log_in(profile)
        profile.ssh_config.write_text(text.replace("IdentitiesOnly yes", f"IdentityAgent {env['SSH_AUTH_SOCK']}"))
        monkeypatch.delenv("SSH_AUTH_SOCK")
        log_in(profile)


def test_more_agent_keys_than_the_server_bears_are_not_all_offered(
    server: OpenSSHServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with key_agent(tmp_path) as env:
        for number in range(8):
            subprocess.run(["ssh-add", "-q", str(make_key(tmp_path / f"k{number}"))], env=env, check=True)
        monkeypatch.setenv("SSH_AUTH_SOCK", env["SSH_AUTH_SOCK"])
        profile = server.profile(key=tmp_path / "absent")
        assert profile.ssh_config
        text = profile.ssh_config.read_text().replace("IdentitiesOnly yes", "IdentitiesOnly no")
        profile.ssh_config.write_text(text.replace("  IdentityAgent none\n", ""))
        with pytest.raises(AuthenticationFailed, match="3 more keys not offered: set IdentityFile and IdentitiesOnly"):
            log_in(profile)


def test_with_identities_only_the_agent_s_other_keys_are_not_offered(
    server: OpenSSHServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with key_agent(tmp_path) as env:
        other = make_key(tmp_path / "other")
        server.authorize(other)
        subprocess.run(["ssh-add", "-q", str(other)], env=env, check=True)
        monkeypatch.setenv("SSH_AUTH_SOCK", env["SSH_AUTH_SOCK"])
        profile = server.profile(key=tmp_path / "absent")
        assert profile.ssh_config
        only = profile.ssh_config.read_text().replace("  IdentityAgent none\n", "")
        profile.ssh_config.write_text(only)
        with pytest.raises(AuthenticationFailed, match="nothing to offer"):
            log_in(profile)
        profile.ssh_config.write_text(only.replace("IdentitiesOnly yes", "IdentitiesOnly no"))
        log_in(profile)


def test_a_server_that_bears_fewer_keys_than_usual_is_a_refusal_too(tmp_path: Path) -> None:
    with OpenSSHServer(tmp_path / "server", extra="MaxAuthTries 2\n") as server:
        profile = server.profile(key=make_key(tmp_path / "k0"))
        assert profile.ssh_config
        with profile.ssh_config.open("a") as config:
            for number in range(1, 5):
                config.write(f"  IdentityFile {make_key(tmp_path / f'k{number}')}\n")
        with pytest.raises(AuthenticationFailed, match="too many attempts"):
            log_in(profile)


# Passwords and second factors ------------------------------------------------------------------------------


def test_a_second_factor_after_a_key_goes_through_the_asker(tmp_path: Path) -> None:
    with LoginServer(tmp_path / "host", ["publickey", "keyboard-interactive"]) as host:
        operator = answers(interactive="123456")
        log_in(host.profile(), operator)
        (question,) = operator.questions
        assert question.title == "Second factor"
        assert question.text == "Look at your phone.\nVerification code:"
        assert question.secret
        assert host.given == ["123456"]


def test_every_step_of_a_long_login_is_taken(tmp_path: Path) -> None:
    with LoginServer(tmp_path / "host", ["publickey", "password", "keyboard-interactive"]) as host:
        operator = answers(interactive="123456", password="123456")
        log_in(host.profile(), operator)
        assert operator.kinds == ["password", "interactive"]


def test_a_second_factor_is_asked_for_again_on_the_next_link(tmp_path: Path) -> None:
    with LoginServer(tmp_path / "host", ["publickey", "keyboard-interactive"]) as host:
        operator, credentials = answers(interactive="123456"), Credentials()
        for _ in range(2):
            log_in(host.profile(), operator, credentials)
        assert operator.kinds == ["interactive"] * 2


@pytest.mark.parametrize(
    ("steps", "kind"), [(["publickey", "keyboard-interactive"], "interactive"), (["password"], "password")]
)
def test_wrong_answers_are_final_after_three_that_the_operator_typed(
    tmp_path: Path, steps: list[str], kind: str
) -> None:
    operator = answers(**{kind: "000000"})
    with LoginServer(tmp_path / "host", steps) as host, session(host.profile(), operator) as (made, seen):
        with pytest.raises(AuthenticationFailed):
            made.wait_connected(60)
        seen.until(lambda: seen.phases == ["connecting", "refused"])
        assert operator.kinds == [kind] * 3
        assert host.logins == 1


@pytest.mark.parametrize("steps", [["publickey", "keyboard-interactive"], ["password"]])
def test_without_an_operator_no_answer_is_sent(tmp_path: Path, steps: list[str]) -> None:
    with LoginServer(tmp_path / "host", steps) as host, session(host.profile()) as (made, seen):
        with pytest.raises(AuthenticationFailed, match=r"not answered|no password was given"):
            made.wait_connected(60)
        seen.until(lambda: seen.phases == ["connecting", "refused"])
        assert host.given == []
        assert host.logins == 1


def test_a_password_is_asked_for_once_a_session(tmp_path: Path) -> None:
    with LoginServer(tmp_path / "host", ["password"]) as host:
        operator, credentials = answers(password="123456"), Credentials()
        for _ in range(2):
            log_in(host.profile(), operator, credentials)
        assert operator.kinds == ["password"]
        assert host.given == ["123456"] * 2


def test_a_remembered_password_that_no_longer_opens_is_asked_for_anew(tmp_path: Path) -> None:
    with LoginServer(tmp_path / "host", ["password"]) as host:
        operator, credentials = Operator(lambda question: host.secret), Credentials()
        log_in(host.profile(), operator, credentials)
        host.secret = "changed"
        log_in(host.profile(), operator, credentials)
        assert host.given == ["123456", "123456", "changed"]


def test_a_link_that_breaks_during_the_login_is_no_refusal(server: OpenSSHServer, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", passphrase="open sesame")
    server.authorize(key)

    def answer(question: Question) -> str:
        server.kill_sessions()
        return "open sesame"

    with pytest.raises(Unreachable, match="closed the connection during authentication") as broken:
        log_in(server.profile(key=key), Operator(answer))
    assert broken.value.retry


@pytest.mark.parametrize(
    ("steps", "kind"), [(["publickey", "keyboard-interactive"], "interactive"), (["password"], "password")]
)
def test_a_server_that_hangs_up_over_an_answer_has_not_refused_it(tmp_path: Path, steps: list[str], kind: str) -> None:
    with LoginServer(tmp_path / "host", steps) as host:

        def answer(question: Question) -> str:
            host.hangs_up = True
            return "123456"

        operator = Operator(answer)
        with pytest.raises(Unreachable, match="closed the connection during authentication") as broken:
            log_in(host.profile(), operator)
        assert broken.value.retry
        assert operator.kinds == [kind]


def test_secrets_are_in_no_message(tmp_path: Path) -> None:
    with LoginServer(tmp_path / "host", ["password"]) as host:
        host.secret = "another"
        with pytest.raises(AuthenticationFailed) as refused:
            log_in(host.profile(), answers(password="hunter2"))
        assert host.given == ["hunter2"] * 3
        assert "hunter2" not in refused.value.message + refused.value.remedy
