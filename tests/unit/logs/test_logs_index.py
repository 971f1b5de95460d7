"""Random access gives what reading the whole log gives, and reads only a little of it."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.logs import pages, search
from remote.logs.index import LineIndex, Read
from remote.logs.moments import Moment, first_moment, parse_moment
from remote.logs.terminal import CAP

BYTES = st.lists(
    st.sampled_from([b"\n", b"\n\n", b"a", b"bc\n", b"\r", b"longer line of text\n", b"\xff"]), max_size=120
).map(b"".join)


class Log:
    """A log in memory that counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes_read = 0

    def read(self, offset: int, size: int) -> bytes:
        piece = self.data[offset : offset + size]
        self.bytes_read += len(piece)
        return piece


def reader(data: bytes) -> Read:
    return Log(data).read


def indexed(data: bytes, step: int, cuts: tuple[int, ...] = ()) -> LineIndex:
    index = LineIndex(step)
    for start, end in itertools.pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]):
        index.feed(data[start:end])
    return index


def starts(data: bytes) -> list[int]:
    return [0, *(match.end() for match in re.finditer(rb"\n", data))]


@settings(max_examples=200, deadline=None)
@given(data=BYTES, step=st.integers(1, 60), cuts=st.lists(st.integers(0, 400), max_size=6).map(tuple))
def test_lines_and_offsets_are_those_of_the_whole_log(data: bytes, step: int, cuts: tuple[int, ...]) -> None:
    index = indexed(data, step, cuts)
    assert (index.size, index.line_feeds) == (len(data), data.count(b"\n"))
    for number, offset in enumerate(starts(data), 1):
        assert index.offset_of(number, reader(data)) == offset
    for offset in range(len(data) + 1):
        assert index.line_at(offset, reader(data)) == data.count(b"\n", 0, offset) + 1
    assert index.offset_of(data.count(b"\n") + 2, reader(data)) is None
    assert index.offset_of(0, reader(data)) is None
    assert index.line_at(len(data) + 1, reader(data)) is None


def test_an_index_stays_small_and_a_look_up_reads_little() -> None:
    data = b"".join(b"line %d\n" % n for n in range(300_000))
    index = indexed(data, step=64)
    assert 100 < index.points <= 4096
    log = Log(data)
    offset = index.offset_of(234_567, log.read)
    assert offset is not None
    assert data[offset : offset + 12] == b"line 234566\n"
    assert index.line_at(offset, log.read) == 234_567
    assert log.bytes_read < len(data) / 4


def test_a_log_cut_meanwhile_gives_no_place_rather_than_a_wrong_one() -> None:
    data = b"line\n" * 1000
    index = indexed(data, step=1 << 20)
    assert index.offset_of(900, reader(data[:100])) is None
    assert index.line_at(4500, reader(data[:100])) is None


STAMPED = b"".join(
    b"no stamp here, but 11-30 23:59 in text and 1 and 2\n(W pid=%d) INFO 11-%02d %02d:00:%02d [a.py:1] x\n"
    % (n, 20 + n // 96, n // 4 % 24, n % 4)
    for n in range(400)
)


@pytest.mark.parametrize("step", [1, 200, 5000, 1 << 20])
@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("11-20 00:00", b"11-20 00:00:00"),
        ("11-22 07:00:02", b"11-22 07:00:02"),
        ("2026-11-22 07:30", b"11-22 08:00:00"),
    ],
)
def test_a_time_leads_to_the_first_line_from_then_on(step: int, asked: str, line: bytes) -> None:
    offset = indexed(STAMPED, step).offset_at(parse_moment(asked, None), reader(STAMPED))
    assert offset == STAMPED.rfind(b"\n", 0, STAMPED.index(line)) + 1


def test_a_time_behind_the_last_line_leads_to_the_end() -> None:
    assert indexed(STAMPED, 500).offset_at(Moment(12, 24, 0), reader(STAMPED)) == len(STAMPED)
    assert indexed(b"none\n", 500).offset_at(Moment(12, 24, 0), reader(b"none\n")) == 5


@pytest.mark.parametrize(
    ("line", "moment"),
    [
        (b"2026-11-29T15:30:26.123456789Z x", Moment(11, 29, 55826)),
        (b"(Worker_TP0 pid=7) INFO 11-29 15:30:26 [a.py:1] x", Moment(11, 29, 55826)),
        (b"Nov  9 01:02:03 host vllm[9]: x", Moment(11, 9, 3723)),
        (b"took 11:29 minutes, 1-2 3:4:5", None),
        (b"x" * 150 + b"2026-11-29 15:30:26", None),
    ],
)
def test_a_stamp_is_read_from_the_head_of_a_line_only(line: bytes, moment: Moment | None) -> None:
    assert first_moment(line) == moment


def test_a_clock_alone_is_of_the_day_given() -> None:
    assert parse_moment("15:30", Moment(11, 29, 1)) == Moment(11, 29, 55800)
    for text, day in (("15:30", None), ("tomorrow", Moment(1, 1, 0)), ("", None)):
        with pytest.raises(ValueError, match="is no time"):
            parse_moment(text, day)


# -- pages


@settings(max_examples=200, deadline=None)
@given(data=BYTES, count=st.integers(1, 30))
def test_pages_forth_and_back_give_every_line_once(data: bytes, count: int) -> None:
    lines = [pages.shown(line) for line in data.splitlines(keepends=True)] if b"\r" not in data else None
    forth, at = [], 0
    while page := pages.rows_from(reader(data), at, count):
        forth += page
        at = page[-1].offset + page[-1].size
    back: list[pages.Row] = []
    end = len(data)
    while page := pages.rows_before(reader(data), end, count):
        back[:0] = page
        end = page[0].offset
    assert forth == back
    assert (at, end) == (len(data), 0)
    assert [row.offset for row in forth] == [offset for offset in starts(data) if offset < len(data)]
    assert lines is None or [row.text for row in forth] == lines


@pytest.mark.parametrize("window", [21, 40, 64, 1000])
def test_a_line_at_the_edge_of_what_was_read_is_whole_on_one_page(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "WINDOW", window)
    lines = [b"%d " % n + b"x" * (n % 17) for n in range(200)]
    data = b"\n".join(lines)
    forth, back, at, end = [], [], 0, len(data)
    while page := pages.rows_from(reader(data), at, 500):
        forth += page
        at = page[-1].offset + page[-1].size
    while page := pages.rows_before(reader(data), end, 500):
        back[:0] = page
        end = page[0].offset
    assert [row.text.encode() for row in forth] == lines
    assert forth == back


@pytest.mark.parametrize("filler", [b"x", b"\0", b"\xff", "批".encode()], ids=["x", "nul", "invalid", "wide"])
def test_a_page_is_bounded_however_long_the_lines(filler: bytes) -> None:
    data = b"first\n" + filler * (3 * pages.WINDOW // len(filler)) + b"\nlast\n" + (filler * 3000 + b"\n") * 600
    log = Log(data)
    seen, at = 0, 0
    while page := pages.rows_from(log.read, at, pages.MAX_ROWS):
        assert sum(len(row.text.encode()) for row in page) <= pages.PAGE_BYTES + CAP * 3
        assert page[0].offset == at
        seen += len(page)
        at = page[-1].offset + page[-1].size
        assert sum(row.size for row in page) <= pages.WINDOW
    assert at == len(data)
    assert sum(row.starts for row in pages.rows_from(reader(data), 6, 9)) == 1
    log.bytes_read = 0
    assert [
        row.text[:4] for row in pages.rows_before(log.read, 6 + 3 * pages.WINDOW // len(filler) * len(filler) + 6, 1)
    ] == ["last"]
    assert log.bytes_read <= pages.WINDOW + 2


def test_a_row_shows_what_the_terminal_shows_in_the_end() -> None:
    data = b"\r 10%|#   |\r 100%|####|\r\nplain\r\n"
    assert [row.text for row in pages.rows_from(reader(data), 0, 9)] == [" 100%|####|", "plain"]


def test_a_bar_that_is_longer_than_a_window_is_cut_between_two_of_its_states() -> None:
    bar = b"(Worker_TP0 pid=1) " + b"".join(b"\r%05d of 99999 [00:41<2:29:42, 1.28s/it]" % n for n in range(20_000))
    data = b"first\n" + bar + b"\nlast\n"
    forth, at = [], 0
    while page := pages.rows_from(reader(data), at, 9):
        forth += page
        at = page[-1].offset + page[-1].size
    back: list[pages.Row] = []
    end = len(data)
    while page := pages.rows_before(reader(data), end, 9):
        back[:0] = page
        end = page[0].offset
    for rows in (forth, back):
        assert b"".join(data[row.offset : row.offset + row.size] for row in rows) == data
        assert [row.starts for row in rows[:-1]] == [True, True, *[False] * (len(rows) - 3)]
        for row in rows[1:-1]:
            assert re.fullmatch(r"(\(Worker_TP0 pid=1\) )?\d{5} of 99999 \[00:41<2:29:42, 1.28s/it\]", row.text)
    assert back[-2].text == forth[-2].text == "19999 of 99999 [00:41<2:29:42, 1.28s/it]"


def test_a_line_is_found_from_inside_it() -> None:
    assert pages.line_start(reader(b"ab\ncdef\ng"), 5) == 3
    assert pages.line_start(reader(b"ab\ncdef\ng"), 3) == 3
    assert pages.line_start(reader(b"ab"), 1) == 0


# -- search


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(st.sampled_from([b"", b"hit", b"a hit and a hit", b"none", b"n" * 300]), max_size=60),
    limit=st.integers(1, 9),
    block=st.integers(350, 900),
)
def test_hits_forth_and_back_are_the_lines_that_match(lines: list[bytes], limit: int, block: int) -> None:
    data = b"\n".join(lines)
    wanted = [offset for offset, line in zip(starts(data), lines, strict=False) if b"hit" in line]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "BLOCK", block)
        patch.setattr(search, "OVERLAP", 310)
        for back in (False, True):
            found: list[int] = []
            at: int | None = len(data) if back else 0
            while at is not None:
                step = search.search(reader(data), len(data), search.pattern_finder("hit"), at, back, limit)
                assert len(step.hits) <= limit
                found += [hit.offset for hit in step.hits]
                at = step.next
            assert found == (wanted[::-1] if back else wanted)


def test_out_of_time_a_search_says_where_to_go_on() -> None:
    data = (b"x" * 99 + b"\n") * 50_000
    finder = search.pattern_finder("y")
    step = search.search(reader(data), len(data), finder, 0, seconds=0)
    assert (step.hits, step.next) == ((), search.BLOCK // 100 * 100)
    back = search.search(reader(data), len(data), finder, len(data), back=True, seconds=0)
    assert back.next == len(data) - search.BLOCK // 100 * 100
    assert search.search(reader(data), len(data), finder, 0, seconds=60).next is None


def test_a_hit_far_into_a_long_line_shows_the_match() -> None:
    data = b"start\n" + b"n" * 5000 + b"needle" + b"n" * 5000
    (hit,) = search.search(reader(data), len(data), search.pattern_finder("needle"), 0).hits
    assert hit.offset == 6
    assert "needle" in hit.text
    assert len(hit.text) <= search.EXCERPT


@pytest.mark.parametrize("pattern", ["(", "*a", "a{2,1}", "x" * 1001, "x*", "^", "(?P<n>"])
def test_a_bad_pattern_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(search.BadPattern, match=r"no regular expression|matches nothing|is longer than"):
        search.pattern_finder(pattern)


def test_case_counts_unless_told_otherwise() -> None:
    assert list(search.pattern_finder("error")(b"ERROR error")) == [6]
    assert list(search.pattern_finder("error", ignore_case=True)(b"ERROR error")) == [0, 6]
    assert list(search.pattern_finder("Error", ignore_case=True)(b"ERROR error")) == [0, 6]
    assert list(search.pattern_finder("err.r", ignore_case=True)(b"ERROR error")) == [0, 6]


@settings(max_examples=50, deadline=None)
@given(block=st.binary(max_size=60).map(lambda data: data.replace(b"\0", b"aA")))
@pytest.mark.parametrize("word", ["a", "aA", "é", "a+", "[a-z]", r"\x41", r"\101", r"\w", r"\W"])
def test_short_cuts_find_what_the_expression_would(block: bytes, word: str) -> None:
    block += b"aAaa" + "éÉ".encode()
    for ignore_case in (False, True):
        flags = re.IGNORECASE if ignore_case else 0
        wanted = [match.start() for match in re.finditer(word.encode(), block, flags)]
        assert list(search.pattern_finder(word, ignore_case)(block)) == wanted


def test_a_first_screenful_of_the_tail_reads_one_window() -> None:
    log = Log(b"(W pid=1) INFO 11-29 15:30:26 [a.py:1] step\n" * 400_000)
    assert len(pages.rows_before(log.read, len(log.data), 60)) == 60
    assert log.bytes_read <= pages.WINDOW + 2
