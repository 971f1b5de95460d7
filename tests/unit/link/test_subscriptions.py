"""A tail gives every byte once and in order, whatever links come and go under it."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.client import Client
from remote.link.errors import LinkLost
from remote.link.subscriptions import Subscriptions
from remote.protocol import ProtocolError, RemoteError

LOG = bytes(range(256)) * 8


class Recorder(Client):
    """A client whose requests are kept; `refuse` makes the host refuse them, `lost` the link end."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.refuse = False
        self.lost = False

    def request(self, op: str, timeout: float = 0.0, **params: Any) -> dict[str, Any]:
        self.asked.append({"op": op, **params})
        if self.lost:
            raise LinkLost("gone")
        if self.refuse:
            raise RemoteError("no_such_run", "no such run")
        return {}

    def tell(self, op: str, **params: Any) -> None:
        self.asked.append({"op": op, **params})

    @property
    def tail(self) -> dict[str, Any]:
        return [request for request in self.asked if request["op"] == "tail"][-1]


def data(tail: str, start: int, end: int) -> dict[str, Any]:
    return {
        "ev": "data",
        "tail": tail,
        "offset": start,
        "log_id": "1:2",
        "data": base64.b64encode(LOG[start:end]).decode(),
    }


def opened(offset: int = 0) -> tuple[Subscriptions, Recorder]:
    wanted, client = Subscriptions(), Recorder()
    wanted.tail(client, "log", "r", "extract", 1, offset, True)
    return wanted, client


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(1, 300), max_size=8), min_size=1, max_size=6), st.data())
def test_links_that_break_anywhere_lose_and_repeat_nothing(links: list[list[int]], draw: st.DataObject) -> None:
    wanted, got, stale = Subscriptions(), bytearray(), []
    wanted.tail(None, "log", "r", "extract", 1, 0, True)
    for sizes in [*links, [len(LOG)]]:
        client = Recorder()
        wanted.renew(client)
        request = client.tail
        at = draw.draw(st.integers(0, request["offset"]))  # an agent may begin earlier than asked
        frames = []
        for size in sizes:
            end = min(at + size, len(LOG))
            frames.append(data(request["tail"], at, end))
            at = draw.draw(st.integers(max(0, end - 50), end))  # and repeat itself
        frames += stale  # what the reader of an older link still had in hand
        for frame in frames:
            delivered = wanted.sift(frame)
            if delivered:
                assert delivered["offset"] == len(got)
                assert delivered["tail"] == "log"
                got += base64.b64decode(delivered["data"])
        stale = frames
    assert bytes(got) == LOG


def test_a_tail_resumes_at_its_next_byte_of_the_same_log() -> None:
    wanted, first = opened()
    assert first.tail["offset"] == 0
    assert first.tail["log_id"] is None
    wanted.sift(data(first.tail["tail"], 0, 100))
    second = Recorder()
    wanted.renew(second)
    assert (second.tail["offset"], second.tail["log_id"]) == (100, "1:2")


def test_a_gap_is_a_broken_protocol() -> None:
    wanted, client = opened()
    with pytest.raises(ProtocolError, match="byte 5, but byte 0"):
        wanted.sift(data(client.tail["tail"], 5, 10))


@pytest.mark.parametrize("broken", ["not base64!", "AAAA!", 7, None, "AAA"])
def test_data_that_is_no_base64_is_a_broken_protocol(broken: Any) -> None:
    wanted, client = opened()
    with pytest.raises(ProtocolError):
        wanted.sift({**data(client.tail["tail"], 0, 10), "data": broken})


def test_frames_of_an_older_link_are_stale() -> None:
    wanted, first = opened()
    second = Recorder()
    wanted.renew(second)
    assert wanted.sift(data(first.tail["tail"], 0, 10)) is None
    assert wanted.sift(data(second.tail["tail"], 0, 10)) is not None


@pytest.mark.parametrize(
    "event", [{"ev": "rotated", "log_id": "1:3", "was": "1:2"}, {"ev": "truncated", "size": 3, "was": 100}]
)
def test_a_log_that_was_replaced_or_cut_begins_again(event: dict[str, Any]) -> None:
    wanted, client = opened()
    wire = client.tail["tail"]
    wanted.sift(data(wire, 0, 100))
    assert wanted.sift({**event, "tail": wire}) == {**event, "tail": "log"}
    delivered = wanted.sift(data(wire, 0, 10))
    assert delivered is not None
    assert delivered["offset"] == 0


def test_an_ended_tail_is_not_taken_up_again() -> None:
    wanted, client = opened()
    assert wanted.sift({"ev": "end", "tail": client.tail["tail"]}) == {"ev": "end", "tail": "log"}
    fresh = Recorder()
    wanted.renew(fresh)
    assert fresh.asked == []


def test_credit_is_given_back_for_what_came_not_for_what_was_new() -> None:
    wanted, client = opened()
    frame = data(client.tail["tail"], 0, 100)
    wanted.sift(frame)
    wanted.consumed(client, frame)
    wanted.consumed(client, frame)  # the host spent its credit on the repetition too
    assert [r for r in client.asked if r["op"] == "credit"] == [
        {"op": "credit", "tail": client.tail["tail"], "bytes": 100}
    ] * 2


def test_a_tail_taken_up_twice_on_one_link_is_asked_for_once() -> None:
    wanted, client = opened()
    wanted.renew(client)
    assert len([r for r in client.asked if r["op"] == "tail"]) == 1


def test_a_new_tail_under_a_used_key_ends_the_old_one_on_the_host() -> None:
    wanted, client = opened()
    old = client.tail["tail"]
    wanted.tail(client, "log", "r", "extract", 2, 7, True)
    assert {"op": "untail", "tail": old} in client.asked
    assert (client.tail["attempt"], client.tail["offset"]) == (2, 7)
    assert wanted.sift(data(old, 0, 10)) is None


def test_what_the_host_refuses_is_forgotten_and_what_a_link_drops_is_kept() -> None:
    wanted, client = Subscriptions(), Recorder()
    client.refuse = True
    for ask in (lambda: wanted.watch(client, "r"), lambda: wanted.tail(client, "log", "r", "extract", 1, 0, True)):
        with pytest.raises(RemoteError):
            ask()
    fresh = Recorder()
    wanted.renew(fresh)
    assert fresh.asked == []
    client.refuse, client.lost = False, True
    for ask in (lambda: wanted.watch(client, "r"), lambda: wanted.tail(client, "log", "r", "extract", 1, 0, True)):
        with pytest.raises(LinkLost):
            ask()
    wanted.renew(fresh)
    assert [request["op"] for request in fresh.asked] == ["watch", "tail"]


def test_a_refused_renewal_is_told_to_the_console() -> None:
    wanted = Subscriptions()
    wanted.watch(None, "r")
    wanted.tail(None, "log", "r", "extract", 1, 0, True)
    client = Recorder()
    client.refuse = True
    told = wanted.renew(client)
    assert [(push["ev"], push["op"]) for push in told] == [("failed", "watch"), ("failed", "tail")]
    assert told[1]["tail"] == "log"


def test_telemetry_that_was_turned_off_stays_off() -> None:
    wanted, client = Subscriptions(), Recorder()
    wanted.telemetry(client, True, 2.0)
    wanted.telemetry(client, False, 2.0)
    fresh = Recorder()
    wanted.renew(fresh)
    assert fresh.asked == []
