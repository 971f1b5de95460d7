"""The log ring: every byte once and in order, in bounded memory, whatever pieces the bytes come in."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from console import logring
from console.logring import BLOCK, KEEP, LINE_CAP, LogKey, LogTail

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


def whole(data: bytes) -> LogTail:
    return LogTail.open(KEY, "t").feed(0, "1:1", data)


def texts(tail: LogTail) -> list[str]:
    return [line.text for line in tail.lines()]


@given(st.lists(PIECES, max_size=30), st.data())
@settings(max_examples=150)
@example([b"x" * LINE_CAP, b"y\n"], None)
def test_any_chunking_gives_the_lines_of_the_whole(pieces: list[bytes], data: st.DataObject | None) -> None:
    log = b"".join(pieces)
    tail, at = LogTail.open(KEY, "t"), 0
    while at < len(log):
        step = data.draw(st.integers(1, len(log))) if data else 1000
        tail = tail.feed(at, "1:1", log[at : at + step])
        at = tail.next_offset
    assert texts(tail) == texts(whole(log))
    assert [line.offset for line in tail.lines()] == [line.offset for line in whole(log).lines()]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12))
def test_bytes_that_come_twice_are_shown_once(starts: list[int]) -> None:
    log = "".join(f"line {i}\n" for i in range(8)).encode()
    tail = LogTail.open(KEY, "t")
    for start in starts:
        begin = min(start, tail.next_offset)
        tail = tail.feed(begin, "1:1", log[begin : begin + 25])
    assert texts(tail) == texts(whole(log[: tail.next_offset]))


def test_lines_split_on_newlines_only_so_numbers_agree_with_grep() -> None:
    log = "one\x0btwo\u2028three\x85four\x1cfive\nsix\n".encode()
    assert whole(log).rows == 2 == log.count(b"\n")
    assert whole(log).number(1) == 2


def test_a_gap_is_said_and_not_bridged() -> None:
    tail = whole(b"one\nhal").feed(100, "1:1", b"later\n")
    assert texts(tail) == ["one", "hal… 93 bytes are missing here …", "later"]
    assert tail.next_offset == 106
    assert tail.number(0) is None


def test_a_bar_keeps_its_worker_and_its_last_state() -> None:
    prefix = b"\x1b[1;36m(Worker_TP0 pid=1)\x1b[0;0m "
    assert texts(whole(prefix + b"\rLoading shards:  25% | 1/4\n")) == ["(Worker_TP0 pid=1) Loading shards:  25% | 1/4"]
    assert texts(whole(prefix + b"      \r 50%\r 75%\r  \r  \n")) == ["(Worker_TP0 pid=1) 75%"]
    assert texts(whole(b"samples 0%\rsamples 50%\rsamples 100%\n")) == ["samples 100%"]
    assert texts(whole(b"windows\r\n")) == ["windows"]


def test_a_bar_that_never_ends_its_line_stays_small() -> None:
    tail = LogTail.open(KEY, "t")
    for i in range(3000):
        tail = tail.feed(tail.next_offset, "1:1", b"\rsamples %d/3000" % i)
    assert texts(tail) == ["samples 2999/3000"]
    assert len(tail.partial.head) + len(tail.partial.segment) + len(tail.partial.shown) < 200


def test_a_line_without_end_stays_small_and_says_that_it_was_cut() -> None:
    tail = LogTail.open(KEY, "t")
    for _ in range(100):
        tail = tail.feed(tail.next_offset, "1:1", b"x" * 50_000)
    assert len(tail.partial.head) == LINE_CAP
    assert texts(tail)[0].endswith("…")
    bar = tail.feed(tail.next_offset, "1:1", b"\r")
    for _ in range(100):
        bar = bar.feed(bar.next_offset, "1:1", b"y" * 50_000)
    assert len(bar.partial.segment) == LINE_CAP


def test_half_a_character_is_not_shown_until_it_is_whole() -> None:
    euro = "€".encode()
    tail = LogTail.open(KEY, "t").feed(0, "1:1", b"5 " + euro[:2])
    assert texts(tail) == ["5 "]
    assert texts(tail.feed(4, "1:1", euro[2:] + b"\n")) == ["5 €"]
    assert texts(whole(b"bad \xff\n")) == ["bad \ufffd"]
    assert texts(whole(b"cut " + euro[:2] + b"\n")) == ["cut \ufffd"]


def test_the_ring_is_bounded_and_counts_what_it_let_go() -> None:
    count = KEEP + 5000
    tail = LogTail.open(KEY, "t")
    for start in range(0, count, 1000):
        data = b"".join(b"line %d\n" % i for i in range(start, start + 1000))
        tail = tail.feed(tail.next_offset, "1:1", data)
    assert KEEP - BLOCK <= tail.held <= KEEP + BLOCK
    assert tail.dropped + tail.held == count
    assert tail.row(0).text == f"line {tail.dropped}"
    assert tail.number(0) == tail.dropped + 1
    assert tail.row(tail.rows - 1).text == f"line {count - 1}"


def test_a_byte_offset_finds_its_line() -> None:
    tail = whole(b"zero\none\ntwo")
    assert [tail.row_at(offset) for offset in (0, 4, 5, 9, 11)] == [0, 0, 1, 2, 2]
    assert tail.row_at(12) is None
    later = LogTail.open(KEY, "t", 100).feed(100, "1:1", b"a\nb\n")
    assert later.row_at(99) is None
    assert later.row_at(102) == 1


def test_a_replaced_or_truncated_file_starts_again_and_says_so() -> None:
    replaced = whole(b"old\n").feed(0, "9:9", b"new\n")
    assert texts(replaced) == ["new"]
    assert "replaced" in replaced.note
    assert texts(whole(b"old\nolder\n").truncated(0).feed(0, "1:1", b"again\n")) == ["again"]


def test_every_line_is_sanitised() -> None:
    assert "\x1b" not in "".join(texts(whole(b"\x1b]52;c;x\x07\n\r\x1b[2J\n\x1b]0;unfinished")))


def test_the_cap_counts_the_same_in_one_piece_and_in_many() -> None:
    for size in (LINE_CAP - 1, LINE_CAP, LINE_CAP + 1):
        log = b"y" * size + b"\n"
        tail = LogTail.open(KEY, "t").feed(0, None, log[:10]).feed(10, None, log[10:])
        assert texts(tail) == texts(whole(log))
    assert logring.BLOCK < logring.KEEP
