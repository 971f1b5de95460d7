"""Tails: resumable by identity and offset, paid with credit, served in turn, ended only when all was sent."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from remote import protocol
from remote.agent.layout import Attempt
from remote.agent.tail import Tail, Tails
from remote.protocol import RemoteError


class Log:
    """A log and whether its attempt is over."""

    def __init__(self, folder: Path) -> None:
        self.attempt = Attempt(str(folder / "20260101T000000Z-00000000" / "one" / "1"))
        self.path = Path(self.attempt.log)
        self.path.parent.mkdir(parents=True)
        self.over = False

    def tail(self, name: str = "t", **more: Any) -> Tail:
        given = {"offset": 0, "log_id": None, "credit": 1 << 20, "follow": True, **more}
        return Tail(name, self.attempt, over=lambda attempt: self.over, **given)

    @property
    def id(self) -> str:
        seen = self.path.stat()
        return f"{seen.st_dev:x}:{seen.st_ino:x}"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote.agent.tail.CHECK_EVERY", 0.0)


def drain(tail: Tail) -> list[dict[str, Any]]:
    found = []
    while (frame := tail.next()) is not None:
        found.append(frame)
        if frame["ev"] == protocol.END:
            break
    return found


def data(frames: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(f["data"]) for f in frames if f["ev"] == protocol.DATA)


def test_pieces_are_small_and_say_where_they_belong(log: Log) -> None:
    log.path.write_bytes(os.urandom(100_000))
    frames = drain(log.tail())
    assert data(frames) == log.path.read_bytes()
    assert [f["offset"] for f in frames] == [0, 32768, 65536, 98304]
    assert {f["log_id"] for f in frames} == {log.id}


def test_a_tail_resumes_where_it_was_told_to(log: Log) -> None:
    log.path.write_bytes(b"0123456789")
    frames = drain(log.tail(offset=4, log_id=log.id))
    assert (data(frames), frames[0]["offset"]) == (b"456789", 4)


def test_without_credit_nothing_is_sent(log: Log) -> None:
    log.path.write_bytes(b"0123456789")
    tails = Tails()
    tails.add(log.tail(credit=4))
    first = tails.next()
    assert first is not None and data([first]) == b"0123"
    assert tails.next() is None
    tails.credit("t", 100)
    second = tails.next()
    assert second is not None and data([second]) == b"456789"


def test_the_end_comes_after_the_last_byte_and_only_when_the_attempt_is_over(log: Log) -> None:
    log.path.write_bytes(b"a")
    tail = log.tail()
    assert [f["ev"] for f in drain(tail)] == ["data"]
    with log.path.open("ab") as target:
        target.write(b"b")
    log.over = True
    frames = drain(tail)
    assert [f["ev"] for f in frames] == ["data", "end"]
    assert frames[-1]["offset"] == 2


def test_bytes_written_between_the_last_look_and_the_end_are_sent(log: Log) -> None:
    log.path.write_bytes(b"a")

    def over(attempt: Attempt) -> bool:
        if not log.over:
            with log.path.open("ab") as target:
                target.write(b"last words")
        log.over = True
        return True

    tail = Tail("t", log.attempt, 0, None, 1 << 20, True, over)
    frames = drain(tail)
    assert data(frames) == b"alast words"
    assert frames[-1]["ev"] == "end"


def test_the_end_needs_no_credit_but_comes_after_what_does(log: Log) -> None:
    log.path.write_bytes(b"abcd")
    log.over = True
    tail = log.tail(credit=3)
    assert data(drain(tail)) == b"abc"
    assert drain(tail) == []
    tail.credit = 1
    assert [f["ev"] for f in drain(tail)] == ["data", "end"]


def test_without_follow_it_ends_with_the_file(log: Log) -> None:
    log.path.write_bytes(b"abc")
    assert [f["ev"] for f in drain(log.tail(follow=False))] == ["data", "end"]


def test_a_log_that_does_not_exist_yet_is_waited_for(log: Log) -> None:
    tail = log.tail()
    assert drain(tail) == []
    log.path.write_bytes(b"abc")
    assert data(drain(tail)) == b"abc"


def test_a_log_that_never_came_ends_with_its_attempt(log: Log) -> None:
    log.over = True
    assert [f["ev"] for f in drain(log.tail())] == ["end"]


def test_a_truncated_log_is_said_and_read_from_its_start(log: Log) -> None:
    log.path.write_bytes(b"0123456789")
    tail = log.tail()
    drain(tail)
    log.path.write_bytes(b"new")
    frames = drain(tail)
    assert [f["ev"] for f in frames] == ["truncated", "data"]
    assert (frames[0]["size"], frames[0]["was"]) == (3, 10)
    assert (data(frames), frames[1]["offset"]) == (b"new", 0)


def test_a_rotated_log_is_read_to_its_end_and_then_the_new_one(log: Log) -> None:
    log.path.write_bytes(b"old")
    tail = log.tail(credit=2)
    before = log.id
    drain(tail)
    log.path.rename(log.path.with_suffix(".1"))
    log.path.write_bytes(b"new")
    tail.credit = 100
    frames = drain(tail)
    assert [f["ev"] for f in frames] == ["data", "rotated", "data"]
    assert (frames[1]["was"], frames[1]["log_id"]) == (before, log.id)
    assert data(frames) == b"dnew"


def test_resuming_another_file_than_the_one_before_is_said(log: Log) -> None:
    log.path.write_bytes(b"abc")
    frames = drain(log.tail(offset=2, log_id="0:0"))
    assert [f["ev"] for f in frames] == ["rotated", "data"]
    assert data(frames) == b"abc"


def test_a_log_that_is_a_symbolic_link_is_refused(log: Log, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    log.path.symlink_to(tmp_path / "secret")
    with pytest.raises(RemoteError, match="symbolic link"):
        log.tail()


def test_a_log_that_becomes_a_symbolic_link_ends_the_tail(log: Log, tmp_path: Path) -> None:
    log.path.write_bytes(b"abc")
    tail = log.tail()
    drain(tail)
    (tmp_path / "secret").write_text("secret")
    log.path.unlink()
    log.path.symlink_to(tmp_path / "secret")
    frames = drain(tail)
    assert [f["ev"] for f in frames] == ["end"]
    assert "symbolic link" in frames[0]["error"]


def test_a_log_that_is_a_pipe_is_refused_without_waiting(log: Log) -> None:
    os.mkfifo(log.path)
    with pytest.raises(RemoteError, match="no plain file"):
        log.tail()


def test_tails_take_turns(tmp_path: Path) -> None:
    tails = Tails()
    for name in ("a", "b"):
        log = Log(tmp_path / name)
        log.path.write_bytes(b"x" * 100_000)
        tails.add(log.tail(name))
    order = [frame["tail"] for frame in iter(tails.next, None)]
    assert order == ["a", "b"] * 4
    tails.remove("a")
    tails.credit("a", 100)
    assert len(tails) == 1
