"""A window of a log: every byte once and in order, the same rows from pages and from bytes, in bounded memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console import logwindow
from console.logwindow import KEEP, LogKey, LogRow, LogWindow
from remote.logs import pages
from remote.wire import to_wire

KEY = LogKey("run", "extract", 1)
PIECES = st.sampled_from(
    [
        b"a",
        b"line\n",
        b"\n",
        b"\r",
        "é".encode(),
        "你好\n".encode(),
        b"\xff",
        b"(Worker_TP0 pid=1) ",
        b"\x1b[1;36m",
        b"x" * 5000,
    ]
)
LOGS = st.lists(PIECES, max_size=60).map(b"".join)


def page(log: bytes, place: int, before: int, rows: int, numbers: bool = True) -> dict[str, Any]:
    """What the host answers to PAGE, in so far as a window looks at it."""

    def read(offset: int, size: int) -> bytes:
        return log[offset : offset + size]

    found = [*pages.rows_before(read, place, before), *(pages.rows_from(read, place, rows) if rows else [])]
    wire = [{**to_wire(row), "line": log.count(b"\n", 0, row.offset) + 1 if numbers else None} for row in found]
    return {"rows": wire, "size": len(log), "log_id": "1:1", "place": place, "indexed": len(log)}


def whole(log: bytes) -> LogWindow:
    return LogWindow(key=KEY, tail="t").feed(0, "1:1", log)


def at_end(log: bytes, before: int, numbers: bool = True) -> LogWindow:
    return LogWindow.of_page(KEY, page(log, len(log), before, 0, numbers), tail="t")


def texts(window: LogWindow) -> list[str]:
    return [row.text for row in window.lines()]


@given(LOGS, st.data())
@settings(max_examples=150, deadline=None)
def test_any_chunking_gives_the_rows_of_the_whole(log: bytes, data: st.DataObject) -> None:
    window = LogWindow(key=KEY, tail="t")
    while window.next_offset < len(log):
        step = data.draw(st.integers(1, len(log)))
        window = window.feed(window.next_offset, "1:1", log[window.next_offset : window.next_offset + step])
    assert list(window.lines()) == list(whole(log).lines())


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12))
def test_bytes_that_come_twice_are_shown_once(starts: list[int]) -> None:
    log = "".join(f"line {i}\n" for i in range(8)).encode()
    window = LogWindow(key=KEY, tail="t")
    for start in starts:
        begin = min(start, window.next_offset)
        window = window.feed(begin, "1:1", log[begin : begin + 25])
    assert texts(window) == texts(whole(log[: window.next_offset]))


@given(LOGS, LOGS, st.integers(1, 9), st.booleans(), st.data())
@settings(max_examples=200, deadline=None)
def test_a_page_of_the_end_goes_on_with_the_bytes_that_follow(
    log: bytes, more: bytes, before: int, numbers: bool, data: st.DataObject
) -> None:
    window = at_end(log, before, numbers)
    assert texts(window) == texts(whole(log))[-before:]
    at = window.next_offset
    while at < len(log + more):
        step = data.draw(st.integers(1, len(log + more)))
        window = window.feed(at, "1:1", (log + more)[at : at + step])
        at = window.next_offset
    wanted = [row for row in whole(log + more).lines() if row.offset >= window.start]
    assert [row._replace(line=0) for row in window.lines()] == [row._replace(line=0) for row in wanted]
    if numbers or window.start == 0:
        assert [row.line for row in window.lines()] == [row.line for row in wanted]


@given(LOGS, st.lists(st.sampled_from([-1, 1]), max_size=12), st.integers(1, 7), st.data())
@settings(max_examples=200, deadline=None)
def test_a_window_opened_anywhere_grows_to_both_sides(
    log: bytes, steps: list[int], count: int, data: st.DataObject
) -> None:
    starts = [0, *(at + 1 for at, byte in enumerate(log) if byte == 10)]
    place = data.draw(st.sampled_from(starts))
    window = LogWindow.of_page(KEY, page(log, place, count, count), mark=place, jump=1)
    for step in steps:
        if step < 0:
            window = window.earlier(page(log, window.start, count, 0))
        else:
            window = window.later(page(log, window.next_offset, 0, count))
    wanted = [row for row in whole(log).lines() if window.start <= row.offset < window.end]
    assert list(window.lines()) == wanted
    assert window.mark == place


@given(LOGS, LOGS, st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_a_frozen_window_meets_the_live_one_again(log: bytes, more: bytes, before: int) -> None:
    live = at_end(log, before)
    frozen = live.feed(live.next_offset, "1:1", log[live.next_offset :]).frozen()
    assert texts(frozen) == texts(at_end(log, before))
    after = whole(log + more)
    joined = frozen.joined(after)
    assert list(joined.lines()) == [row for row in after.lines() if row.offset >= frozen.start]


def test_pages_that_do_not_follow_change_nothing() -> None:
    log = b"".join(b"line %d\n" % n for n in range(100))
    window = LogWindow.of_page(KEY, page(log, 400, 5, 5))
    assert window.earlier(page(log, 100, 5, 0)) == window
    assert window.later(page(log, 700, 0, 5)) == window
    assert window.joined(LogWindow.of_page(KEY, page(log, len(log), 5, 0), tail="t")) == window
    other = whole(log).feed(len(log), "9:9", b"x\n")
    assert window.joined(other) == window


def test_numbers_come_later_when_the_host_has_counted() -> None:
    log = b"".join(b"line %d\n" % n for n in range(100)) + b"open"
    window = at_end(log, 5, numbers=False)
    window = window.feed(window.next_offset, "1:1", b"open end\nnext\nand")
    assert {row.line for row in window.lines()} == {None}
    counted = window.numbered(page(log, window.start, 0, 1))
    assert [row.line for row in counted.lines()] == [97, 98, 99, 100, 101, 102, 103]
    assert counted.feed(counted.next_offset, "1:1", b" so on\nx").row(counted.count).line == 104
    assert window.numbered(page(log, 0, 0, 1)) == window


@pytest.mark.parametrize("tail", ["t", ""])
def test_a_window_is_bounded_and_lets_go_of_the_side_that_was_left(tail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logwindow, "KEEP", 40)
    log = b"".join(b"line %d\n" % n for n in range(300))
    window = LogWindow.of_page(KEY, page(log, len(log), 30, 0), tail=tail)
    for _ in range(9):
        window = window.earlier(page(log, window.start, 20, 0))
        assert window.count <= 40
    if tail:
        assert texts(window) == [f"line {n}" for n in range(260, 300)], "its end is what it is for"
        return
    assert texts(window) == [f"line {n}" for n in range(90, 130)]
    window = window.later(page(log, window.next_offset, 0, 20))
    assert [(row.text, row.line) for row in window.lines()] == [(f"line {n}", n + 1) for n in range(110, 150)]


def test_a_live_window_is_bounded_and_stays_at_the_end() -> None:
    window = LogWindow(key=KEY, tail="t")
    for start in range(0, KEEP + 5000, 1000):
        data = b"".join(b"line %d\n" % i for i in range(start, start + 1000))
        window = window.feed(window.next_offset, "1:1", data)
    assert window.count == KEEP
    assert window.row(0) == LogRow(window.start, 10, "line 5000", True, 5001)
    assert window.row(KEEP - 1).text == f"line {KEEP + 4999}"


def test_lines_split_on_newlines_only_so_numbers_agree_with_grep() -> None:
    log = "one\x0btwo\u2028three\x85four\x1cfive\nsix\n".encode()
    assert whole(log).count == 2 == log.count(b"\n")
    assert whole(log).row(1).line == 2


def test_a_byte_offset_finds_its_row() -> None:
    window = whole(b"zero\none\ntwo")
    assert [window.row_at(offset) for offset in (0, 4, 5, 9, 11)] == [0, 0, 1, 2, 2]
    assert window.row_at(12) is None
    later = LogWindow(key=KEY, next_offset=100).feed(100, "1:1", b"a\nb\n")
    assert later.row_at(99) is None
    assert later.row_at(102) == 1


def test_a_gap_and_a_replaced_file_start_again_and_say_so() -> None:
    gap = whole(b"one\nhal").feed(100, "1:1", b"later\n")
    assert (texts(gap), gap.next_offset, gap.row(0).line) == (["later"], 106, None)
    assert "missing" in gap.note
    assert texts(whole(b"old\n").feed(0, "9:9", b"new\n")) == ["new"]


def test_every_row_is_sanitised() -> None:
    hostile = b"\x1b]52;c;x\x07\n\r\x1b[2J\n\x1b]0;unfinished"
    assert "\x1b" not in "".join(texts(whole(hostile)) + texts(at_end(hostile, 9)))
