"""What a terminal shows of a line: the same in one piece and in many, in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.logs.terminal import CAP, Drawn

PIECES = st.sampled_from(
    [b"a", b"\r", b" ", "é".encode(), b"\xff", b"(Worker_TP0 pid=1) ", b"\x1b[1;36m", b"x" * 5000, b" 50%"]
)
PREFIX = b"\x1b[1;36m(Worker_TP0 pid=1)\x1b[0;0m "


def shown(line: bytes) -> str:
    return Drawn().feed(line).text(whole=True)


@given(st.lists(PIECES, max_size=20), st.data())
@settings(max_examples=150, deadline=None)
def test_any_chunking_draws_the_line_of_the_whole(pieces: list[bytes], data: st.DataObject) -> None:
    line = b"".join(pieces)
    drawn, at = Drawn(), 0
    while at < len(line):
        step = data.draw(st.integers(1, len(line)))
        drawn = drawn.feed(line[at : at + step])
        at += step
    assert (drawn.text(whole=True), drawn.size) == (shown(line), len(line))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (PREFIX + b"\rLoading shards:  25% | 1/4", PREFIX.decode() + "Loading shards:  25% | 1/4"),
        (PREFIX + b"      \r 50%\r 75%\r  \r  ", PREFIX.decode() + "75%"),
        (b"samples 0%\rsamples 50%\rsamples 100%", "samples 100%"),
        (b"windows\r", "windows"),
        (b"bad \xff", "bad \ufffd"),
        (b"cut " + "€".encode()[:2], "cut \ufffd"),
    ],
)
def test_a_bar_keeps_its_worker_and_its_last_state(line: bytes, text: str) -> None:
    assert shown(line) == text


def test_a_bar_that_never_ends_its_line_stays_small() -> None:
    drawn = Drawn()
    for i in range(3000):
        drawn = drawn.feed(b"\rsamples %d/3000" % i)
    assert drawn.text() == "samples 2999/3000"
    assert len(drawn.head) + len(drawn.segment) + len(drawn.shown) < 200


def test_a_line_without_end_stays_small_and_says_that_it_was_cut() -> None:
    drawn = Drawn()
    for _ in range(100):
        drawn = drawn.feed(b"x" * 50_000)
    assert len(drawn.head) == CAP
    assert drawn.text().endswith("…")
    drawn = drawn.feed(b"\r")
    for _ in range(100):
        drawn = drawn.feed(b"y" * 50_000)
    assert len(drawn.segment) == CAP


def test_half_a_character_is_not_shown_until_it_is_whole() -> None:
    euro = "€".encode()
    drawn = Drawn().feed(b"5 " + euro[:2])
    assert drawn.text() == "5 "
    assert drawn.feed(euro[2:]).text() == "5 €"
