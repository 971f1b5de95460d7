"""A session outlives its links: every log byte is delivered once and in order, whatever happens in between."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from faults.fake_host import FakeHost, py
from integration.link.observer import Observer, session
from link_proxy import LinkProxy
from sshd import OpenSSHServer

from remote.link.asker import RefusingAsker
from remote.link.errors import LinkError, LinkLost, NotConnected, UnknownName
from remote.link.hosts import HostProfile
from remote.protocol import RemoteError
from remote.session import HostSession

pytestmark = pytest.mark.openssh

TALKER = """
import pathlib, sys, time
stop = pathlib.Path(sys.argv[1])
line = 0
while not stop.exists():
    for _ in range(50):
        print(f"{line:08d} " + "x" * 60)
        line += 1
    sys.stdout.flush()
    time.sleep(0.01)
print(f"last {line}", flush=True)
"""


class Talker:
    """A supervised stage that writes numbered lines until told to end."""

    def __init__(self, host: FakeHost, folder: Path) -> None:
        self._stop = folder / "enough"
        stage = py("extract", TALKER)
        stage["argv"].append(str(self._stop))
        self.run = host.start(stage)
        self.attempt = host.attempt(self.run, "extract")
        self._host = host

    def enough(self) -> bytes:
        """End the stage: its whole log."""
        self._stop.touch()
        self._host.over(self.attempt)
        return Path(self.attempt.log).read_bytes()


@pytest.fixture
def talker(host: FakeHost, tmp_path: Path) -> Talker:
    return Talker(host, tmp_path)


def profile_of(server: OpenSSHServer, host: FakeHost, **more: Any) -> HostProfile:
    return server.profile(state=str(host.folder), **more)


def follow(made: HostSession, seen: Observer, talker: Talker) -> None:
    """Tail the talker's log and wait for the first bytes."""
    made.wait_connected(60)
    seen.until(lambda: seen.times("connected"), "the word about it")
    made.tail("log", talker.run, "extract", 1)
    seen.until(lambda: seen.logs.get("log"), "the first log bytes")


def more_bytes(seen: Observer) -> None:
    """Wait until the log goes on."""
    have = len(seen.logs["log"])
    seen.until(lambda: len(seen.logs["log"]) > have + 100_000, "further log bytes")


def whole(seen: Observer, talker: Talker) -> None:
    """End the stage and hold what was delivered against the file."""
    log = talker.enough()
    seen.until(lambda: seen.ended("log"), "the log's end")
    assert bytes(seen.logs["log"]) == log
    assert seen.faults == []


def test_a_log_is_delivered_whole_over_one_link(server: OpenSSHServer, host: FakeHost, talker: Talker) -> None:
    with session(profile_of(server, host)) as (made, seen):
        follow(made, seen, talker)
        more_bytes(seen)
        whole(seen, talker)
        assert seen.phases == ["connecting", "connected"]


def test_killed_session_processes_cost_no_byte_and_show_none_twice(
    server: OpenSSHServer, host: FakeHost, talker: Talker
) -> None:
    with session(profile_of(server, host)) as (made, seen):
        follow(made, seen, talker)
        for round_ in range(1, 4):
            assert server.kill_sessions()
            seen.until(lambda times=round_: seen.times("connected") > times, "the next link")
            more_bytes(seen)
        whole(seen, talker)


def test_a_killed_agent_is_replaced(server: OpenSSHServer, host: FakeHost, talker: Talker) -> None:
    with session(profile_of(server, host)) as (made, seen):
        follow(made, seen, talker)
        for pid in server.commands():
            os.kill(pid, signal.SIGKILL)
        seen.until(lambda: seen.times("connected") == 2, "the next agent")
        whole(seen, talker)


def test_a_link_that_held_is_taken_up_again_at_once(
    server: OpenSSHServer, host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remote.session.STEADY_SECONDS", 0.0)
    with session(profile_of(server, host)) as (made, seen):
        made.wait_connected(60)
        seen.until(lambda: seen.times("connected") == 1)
        server.kill_sessions()
        seen.until(lambda: seen.times("connected") == 2, "the next link")
        (waiting,) = [state for state in seen.states if state.phase == "waiting"]
        assert waiting.retry_in == 0.0


def test_without_a_listener_it_waits_longer_and_longer_and_comes_back(
    server: OpenSSHServer, host: FakeHost, talker: Talker
) -> None:
    with session(profile_of(server, host)) as (made, seen):
        follow(made, seen, talker)
        server.kill_listener()
        server.kill_sessions()
        seen.until(lambda: seen.times("waiting") >= 3, "three waits")
        waits = [state.retry_in for state in seen.states if state.phase == "waiting" and state.retry_in]
        assert waits == sorted(waits)
        latest = seen.states[-1]
        assert "cannot be reached" in latest.detail or latest.phase == "connecting"
        with pytest.raises(NotConnected, match="no link to gpu"):
            made.request("list")
        server.restart()
        seen.until(lambda: seen.times("connected") == 2, "the next link")
        whole(seen, talker)


def test_a_frozen_peer_is_found_by_its_silence(server: OpenSSHServer, host: FakeHost, talker: Talker) -> None:
    # The kernel of a stopped process goes on acknowledging: no TCP option would notice.
    with session(profile_of(server, host), heartbeat=1.0, silence=7.0) as (made, seen):
        follow(made, seen, talker)
        frozen = server.sessions()
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        seen.until(lambda: "silent" in seen.states[-1].detail or seen.times("connected") == 2, "the silence")
        assert any("has been silent" in state.detail for state in seen.states)
        seen.until(lambda: seen.times("connected") == 2, "the next link")
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
        more_bytes(seen)
        whole(seen, talker)


def test_a_reset_in_the_middle_of_a_frame_costs_nothing(server: OpenSSHServer, host: FakeHost, talker: Talker) -> None:
    with LinkProxy(server.port) as proxy, session(profile_of(server, host, port=proxy.port)) as (made, seen):
        follow(made, seen, talker)
        for times in range(1, 4):
            proxy.reset_after(40_000 + 777 * times)
            seen.until(lambda times=times: seen.times("connected") > times, "the next link")
            more_bytes(seen)
        whole(seen, talker)


def test_a_link_that_went_dead_without_a_word_is_given_up(
    server: OpenSSHServer, host: FakeHost, talker: Talker
) -> None:
    with (
        LinkProxy(server.port) as proxy,
        session(profile_of(server, host, port=proxy.port), heartbeat=1.0, silence=7.0) as (made, seen),
    ):
        follow(made, seen, talker)
        proxy.freeze()
        seen.until(lambda: seen.times("waiting") >= 1, "the silence")
        proxy.reset()
        proxy.thaw()
        seen.until(lambda: seen.times("connected") == 2, "the next link")
        whole(seen, talker)


def test_a_deadlocked_transport_is_dropped_and_replaced(server: OpenSSHServer, host: FakeHost, talker: Talker) -> None:
    with session(profile_of(server, host), heartbeat=1.0, silence=7.0) as (made, seen), ExitStack() as locks:
        follow(made, seen, talker)
        client = made._client
        assert client is not None
        lock = client._stream._channel.lock  # type: ignore[attr-defined]
        # What paramiko's own deadlock does: the lock of the channel is taken and never given back.
        lock.acquire()
        locks.callback(lock.release)
        seen.until(lambda: seen.times("connected") == 2, "a link past the stuck one")
        whole(seen, talker)
        with pytest.raises(LinkLost):
            client.request("ping")


def test_a_slow_console_holds_up_its_log_and_nothing_else(
    server: OpenSSHServer, host: FakeHost, talker: Talker
) -> None:
    taken, gate = [], threading.Event()
    seen = Observer()

    def on_push(frame: dict[str, Any]) -> None:
        seen.on_push(frame)
        taken.append(frame)
        gate.wait(60)

    made = HostSession(profile_of(server, host), RefusingAsker(), seen.on_link, on_push, heartbeat=1.0, silence=7.0)
    made.start()
    try:
        made.wait_connected(60)
        made.tail("log", talker.run, "extract", 1)
        seen.until(lambda: taken, "the first piece")
        for _ in range(10):
            assert "now" in made.request("ping")
        assert len(taken) == 1
        gate.set()
        whole(seen, talker)
        assert seen.times("connected") == 1
    finally:
        gate.set()
        made.close()


def test_credit_bounds_what_is_under_way(server: OpenSSHServer, host: FakeHost, tmp_path: Path) -> None:
    big = py("extract", "import sys; sys.stdout.write('y' * (8 << 20))")
    run = host.start(big)
    host.over(host.attempt(run, "extract"))
    gate, seen = threading.Event(), Observer()

    def on_push(frame: dict[str, Any]) -> None:
        gate.wait(60)
        seen.on_push(frame)

    with LinkProxy(server.port) as proxy:
        made = HostSession(profile_of(server, host, port=proxy.port), RefusingAsker(), seen.on_link, on_push)
        made.start()
        try:
            made.wait_connected(60)
            before = proxy.forwarded
            made.tail("log", run, "extract", 1)
            for _ in range(20):
                made.request("ping")
            assert proxy.forwarded - before < 3 << 20, "more came than the credit allows"
            gate.set()
            seen.until(lambda: seen.ended("log"), "the log's end")
            assert len(seen.logs["log"]) == 8 << 20
        finally:
            gate.set()
            made.close()


def test_watches_and_telemetry_are_taken_up_again(server: OpenSSHServer, host: FakeHost, talker: Talker) -> None:
    with session(profile_of(server, host)) as (made, seen):
        made.wait_connected(60)
        seen.until(lambda: seen.times("connected"), "the word about it")
        made.watch(talker.run)
        made.telemetry(True, 0.5)

        def both(since: int) -> bool:
            return {"run", "sample"} <= {push["ev"] for push in seen.pushes[since:]}

        seen.until(lambda: both(0), "a run and a sample")
        server.kill_sessions()
        seen.until(lambda: seen.times("connected") == 2, "the next link")
        count = len(seen.pushes)
        seen.until(lambda: both(count), "both again")
        made.unwatch(talker.run)
        made.telemetry(False)


def test_what_is_asked_for_before_the_first_link_is_there_with_it(
    server: OpenSSHServer, host: FakeHost, talker: Talker
) -> None:
    seen = Observer()
    made = HostSession(profile_of(server, host), RefusingAsker(), seen.on_link, seen.on_push)
    made.watch(talker.run)
    made.tail("log", talker.run, "extract", 1)
    made.start()
    try:
        seen.until(lambda: any(push["ev"] == "run" for push in seen.pushes), "the run")
        whole(seen, talker)
    finally:
        made.close()


def test_a_tail_under_a_used_key_begins_anew(server: OpenSSHServer, host: FakeHost, talker: Talker) -> None:
    with session(profile_of(server, host)) as (made, seen):
        follow(made, seen, talker)
        more_bytes(seen)
        made.untail("log")
        seen.logs["log"] = bytearray(12_345)
        made.tail("log", talker.run, "extract", 1, offset=12_345)
        log = talker.enough()
        seen.until(lambda: seen.ended("log"), "the log's end")
        assert bytes(seen.logs["log"][12_345:]) == log[12_345:]


def test_the_host_s_refusals_are_the_caller_s(server: OpenSSHServer, host: FakeHost) -> None:
    with session(profile_of(server, host)) as (made, _):
        made.wait_connected(60)
        for refused in (
            lambda: made.request("show", run="20260101T000000Z-00000000"),
            lambda: made.watch("20260101T000000Z-00000000"),
            lambda: made.tail("log", "20260101T000000Z-00000000", "extract", 1),
        ):
            with pytest.raises(RemoteError) as error:
                refused()
            assert error.value.kind == "no_such_run"
        with pytest.raises(RemoteError) as error:
            made.request("sing")
        assert error.value.kind == "unknown_op"


def test_a_request_in_flight_fails_with_its_link_unless_it_may_be_sent_again(
    server: OpenSSHServer, host: FakeHost
) -> None:
    with session(profile_of(server, host)) as (made, seen):
        made.wait_connected(60)
        seen.until(lambda: seen.times("connected") == 1)
        results: dict[str, Any] = {}

        def ask(name: str, **params: Any) -> None:
            try:
                results[name] = made.request("ping", timeout=60, **params)
            except LinkError as error:
                results[name] = error

        agents = server.commands()
        for pid in agents:
            os.kill(pid, signal.SIGSTOP)  # so that neither is answered on the first link
        threads = [
            threading.Thread(target=ask, args=("plain",)),
            threading.Thread(target=ask, args=("safe",), kwargs={"request_id": "r1"}),
        ]
        for thread in threads:
            thread.start()
        client = made._client
        assert client is not None
        seen.until(lambda: len(client._waiting) == 2, "two requests in flight")
        for pid in agents:
            os.kill(pid, signal.SIGKILL)
        for thread in threads:
            thread.join(60)
        assert isinstance(results["plain"], LinkLost)
        assert "now" in results["safe"]


def test_a_host_that_never_answers_is_told_at_the_time_out(server: OpenSSHServer) -> None:
    server.kill_listener()
    with session(server.profile()) as (made, seen):
        seen.until(lambda: seen.times("waiting") >= 1)
        with pytest.raises(LinkError, match=f"127.0.0.1 port {server.port} cannot be reached"):
            made.wait_connected(0.5)


def test_an_unknown_name_is_final_at_the_first_connection(tmp_path: Path) -> None:
    with session(HostProfile("b200", "no-such-host.invalid", known_hosts=tmp_path / "own")) as (made, seen):
        with pytest.raises(UnknownName, match=r"no-such-host\.invalid"):
            made.wait_connected(60)
        seen.until(lambda: seen.phases == ["connecting", "refused"])
        assert seen.states[-1].remedy


def test_a_name_that_is_lost_later_is_waited_for(server: OpenSSHServer, host: FakeHost) -> None:
    profile = profile_of(server, host)
    config = profile.ssh_config
    assert config is not None
    right = config.read_text()
    with session(profile) as (made, seen):
        made.wait_connected(60)
        config.write_text(right.replace("HostName 127.0.0.1", "HostName no-such-host.invalid"))
        server.kill_sessions()
        seen.until(lambda: any("no address is known" in state.detail for state in seen.states), "the lost name")
        config.write_text(right)
        seen.until(lambda: seen.times("connected") == 2, "the next link")


def test_closing_returns_at_once_even_from_a_peer_that_hangs(server: OpenSSHServer, host: FakeHost) -> None:
    with session(profile_of(server, host)) as (made, seen):
        made.wait_connected(60)
        for pid in server.sessions():
            os.kill(pid, signal.SIGSTOP)
        closing = threading.Thread(target=made.close, daemon=True)
        closing.start()
        closing.join(30)
        assert not closing.is_alive(), "close() waits for a peer that hangs"
        assert seen.phases[-1] == "closed"
        with pytest.raises(LinkError, match="closed"):
            made.wait_connected(60)
        with pytest.raises(LinkError, match="closed"):
            made.request("list")


def test_the_agent_goes_with_the_session_and_the_stage_does_not(
    server: OpenSSHServer, host: FakeHost, talker: Talker
) -> None:
    with session(profile_of(server, host)) as (made, seen):
        follow(made, seen, talker)
        agents = server.commands()
        assert agents
        made.close()
        seen.until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in agents), "the agent's end")
    assert not host.reading(talker.attempt).over
    talker.enough()


def test_a_host_behind_a_jump_host_is_reached(server: OpenSSHServer, host: FakeHost, talker: Talker) -> None:
    inner = OpenSSHServer(server.folder / "inner")
    inner.authorize(server.user_key)
    with inner:
        profile = profile_of(server, host)
        config = profile.ssh_config
        assert config is not None
        with config.open("a") as file:
            file.write(
                f"Host inner\n  HostName 127.0.0.1\n  Port {inner.port}\n  User {inner.user}\n  ProxyJump gpu\n"
                f"  IdentityFile {server.user_key}\n  IdentitiesOnly yes\n  UserKnownHostsFile none\n"
            )
        inner.know(profile.known_hosts)
        jumping = HostProfile(
            "inner", "inner", state=str(host.folder), known_hosts=profile.known_hosts, ssh_config=config
        )
        with session(jumping) as (made, seen):
            follow(made, seen, talker)
            assert server.sessions() and inner.commands()
            server.kill_sessions()
            seen.until(lambda: seen.times("connected") == 2, "the next link")
            whole(seen, talker)
