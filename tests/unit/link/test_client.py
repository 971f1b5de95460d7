"""A client answers its callers whatever the far end does: replies, refuses, falls silent, hangs up, talks nonsense."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.link.far_end import FarEnd

from remote.client import Client
from remote.link.errors import LinkLost, NoAnswer
from remote.protocol import RemoteError


@pytest.fixture
def far() -> FarEnd:
    return FarEnd()


@pytest.fixture
def pushes() -> queue.Queue[dict[str, Any]]:
    return queue.Queue()


@pytest.fixture
def client(far: FarEnd, pushes: queue.Queue[dict[str, Any]]) -> Iterator[Client]:
    made = Client(far.near, "b200", far.drop, pushes.put, heartbeat=0.2, silence=60.0)
    made.start()
    yield made
    made.close()


class Asked(threading.Thread):
    """A request on a thread of its own; `outcome` is its result or what it raised."""

    def __init__(self, client: Client, op: str, **params: Any) -> None:
        super().__init__(daemon=True)
        self._ask = lambda: client.request(op, **params)
        self._outcome: Any = None
        self.start()

    def run(self) -> None:
        try:
            self._outcome = self._ask()
        except Exception as error:
            self._outcome = error

    @property
    def outcome(self) -> Any:
        self.join(60)
        assert not self.is_alive()
        return self._outcome


def test_a_reply_goes_to_the_request_it_answers(client: Client, far: FarEnd) -> None:
    first, second = Asked(client, "list", project="a"), Asked(client, "show", run="r")
    heard = {frame["op"]: frame for frame in (far.hear(), far.hear())}
    assert heard["list"]["project"] == "a"
    far.say(id=heard["show"]["id"], ok=True, result={"for": "show"})
    far.say(id=heard["list"]["id"], ok=True, result={"for": "list"})
    assert first.outcome == {"for": "list"}
    assert second.outcome == {"for": "show"}


def test_a_refusal_is_raised_with_its_kind_and_remedy(client: Client, far: FarEnd) -> None:
    asked = Asked(client, "stop", run="r")
    far.say(id=far.hear()["id"], ok=False, error={"kind": "not_running", "message": "m", "remedy": "r"})
    error = asked.outcome
    assert isinstance(error, RemoteError)
    assert (error.kind, error.message, error.remedy) == ("not_running", "m", "r")


def test_a_request_without_answer_ends_with_its_time_out_and_the_link_stays(client: Client, far: FarEnd) -> None:
    with pytest.raises(NoAnswer, match="has not answered 'list'"):
        client.request("list", timeout=0.1)
    late = far.hear()["id"]
    asked = Asked(client, "ping")
    number = far.hear()["id"]
    far.say(id=late, ok=True, result={})
    far.say(id=number, ok=True, result={"now": 1})
    assert asked.outcome == {"now": 1}


def test_pushes_come_in_order_and_heartbeats_are_kept(client: Client, far: FarEnd, pushes: Any) -> None:
    far.say(ev="beat")
    far.say(ev="run", n=1)
    far.say(ev="beat")
    far.say(ev="run", n=2)
    assert [pushes.get(timeout=60)["n"] for _ in range(2)] == [1, 2]


def test_frames_cut_anywhere_are_put_together(client: Client, far: FarEnd, pushes: Any) -> None:
    for byte in b'{"ev":"run","n":1}\n{"ev":"run","n":2}\n':
        far.say_bytes(bytes([byte]))
    assert [pushes.get(timeout=60)["n"] for _ in range(2)] == [1, 2]


def test_it_sends_heartbeats_of_its_own(client: Client, far: FarEnd) -> None:
    for _ in range(3):
        far.hear_beat()


def test_a_silent_far_end_is_given_up_and_every_caller_told(far: FarEnd) -> None:
    client = Client(far.near, "b200", far.drop, lambda frame: None, heartbeat=0.2, silence=1.0)
    client.start()
    with pytest.raises(LinkLost, match="b200 has been silent for 1 s"):
        client.request("list")
    assert client.closed.wait(60)
    far.hear_end()
    assert far.drops == 1
    with pytest.raises(LinkLost, match="silent"):
        client.request("list")


def test_a_far_end_that_only_beats_is_not_silent(far: FarEnd) -> None:
    client = Client(far.near, "b200", far.drop, lambda frame: None, heartbeat=0.2, silence=1.5)
    client.start()
    for _ in range(12):
        far.hear_beat()
        far.say(ev="beat")
    assert not client.closed.is_set()
    client.close()


def test_a_far_end_that_reads_nothing_blocks_no_caller(far: FarEnd) -> None:
    client = Client(far.near, "b200", far.drop, lambda frame: None, heartbeat=0.2, silence=2.0)
    client.start()
    asked = [Asked(client, "start", filler="x" * 500_000) for _ in range(8)]
    assert all(isinstance(one.outcome, LinkLost) for one in asked)


@pytest.mark.parametrize(
    "nonsense", [b"bash: warning\n", b"[1, 2]\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"x" * ((1 << 20) + 200_000)],
    ids=["text", "no object", "bytes", "nested", "endless line"],
)  # fmt: skip
def test_nonsense_ends_the_link(client: Client, far: FarEnd, nonsense: bytes) -> None:
    sender = threading.Thread(target=far.say_bytes, args=(nonsense,), daemon=True)
    sender.start()
    assert client.closed.wait(60)
    assert isinstance(client.error, LinkLost)
    assert "no frame" in client.error.message
    assert client.error.retry


def test_a_hang_up_fails_what_is_under_way_with_its_reason(client: Client, far: FarEnd) -> None:
    asked = Asked(client, "list", timeout=600)
    far.hear()
    far.hang_up()
    assert isinstance(asked.outcome, LinkLost)
    assert "the test hung up" in asked.outcome.message
    assert asked.outcome.retry


def test_replies_to_nobody_are_passed_over(client: Client, far: FarEnd, pushes: Any) -> None:
    for identity in (None, 99, "x", [1]):
        far.say(id=identity, ok=True, result={})
    far.say(ev="run", n=1)
    assert pushes.get(timeout=60)["n"] == 1


SLEEPER = """
import socket, sys, threading
from remote.client import Client
from unit.link.far_end import SocketStream
end = SocketStream(socket.socket(fileno=int(sys.argv[1])))
client = Client(end, "b200", end.close, print, heartbeat=0.2, silence=2.0)
client.start()
print("up", flush=True)
client.closed.wait()
print(client.error, flush=True)
"""


def test_a_console_that_was_stopped_hears_before_it_judges() -> None:
    # Ctrl+Z, or a laptop's lid: the silence was its own.
    mine, its = socket.socketpair()
    tests = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(its.fileno())],
        pass_fds=[its.fileno()],
        env={**os.environ, "PYTHONPATH": f"{tests}:{tests.parent}"},
        stdout=subprocess.PIPE,
        text=True,
    )
    its.close()
    assert child.stdout
    ending = threading.Event()

    def beat() -> None:
        while not ending.wait(0.2):
            mine.sendall(b'{"ev":"beat"}\n')

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        assert child.stdout.readline() == "up\n"
        for _ in range(3):
            child.send_signal(signal.SIGSTOP)
            time.sleep(3.0)  # the fault itself: longer than the silence that is borne
            child.send_signal(signal.SIGCONT)
            beats = 0
            while beats < 8:  # it goes on, well past the moment of judging
                said = mine.recv(4096)
                assert said, child.stdout.readline()
                beats += said.count(b"beat")
        ending.set()
        beating.join()
        mine.shutdown(socket.SHUT_RDWR)
        assert "the test hung up" in child.stdout.readline()
    finally:
        child.kill()
        child.wait()
