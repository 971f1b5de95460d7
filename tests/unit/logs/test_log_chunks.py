"""However the bytes arrive, the reader finds the same."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_tools import PLAIN, REAL_LOGS, logged, only, place, read, real

from remote.logs.findings import Findings
from remote.logs.reader import LogReader
from remote.logs.records import HEAD_BYTES, TAIL_BYTES

MIXED = (
    "Map:  10%|█         | 10/100 [00:01<00:09, 10.0 examples/s]\r"
    "Map:  50%|█████     | 50/100 [00:05<00:05, 10.0 examples/s]\r\n"
    "\x1b[1;36m(Worker_TP0 pid=7)\x1b[0;0m \r"
    "Loading safetensors checkpoint shards:  50% Completed | 8/16 [00:06<00:06, 1.31it/s]\n"
    + logged(
        "Worker_TP0 pid=7",
        "WorkerProc hit an exception.\n"
        + PLAIN.replace("(batch)", "(批)").replace("AssertionError", "OSError: ß\nand more"),
    )
    + "(Worker_TP0 pid=7) INFO 11-29 15:30:26 [default_loader.py:293] Loading weights took 0.09 seconds\n"
    + PLAIN.replace("line 12,", "line 13,")
    + "\r\n\r\r\nValueError: not part of it\n/run.sh: line 3:  99 Killed   python x\n"
).encode()


def some_cuts(choice: st.DataObject, data: bytes) -> list[int]:
    """Cuts anywhere, and right behind carriage returns, where the next byte decides what they mean."""
    anywhere = st.integers(0, len(data))
    returns = [place + 1 for place, byte in enumerate(data) if byte == 13]
    return choice.draw(st.lists(anywhere | st.sampled_from(returns) if returns else anywhere, max_size=12))


def in_chunks(data: bytes, cuts: list[int]) -> tuple[Findings, Findings]:
    """Findings while the log is open, and at its end."""
    reader = LogReader()
    edges = [0, *sorted(cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        reader.feed(data[start:end])
    return reader.findings(), reader.finish()


def test_cutting_at_any_byte_changes_nothing() -> None:
    whole = in_chunks(MIXED, [])
    assert [item.message for item in whole[1].tracebacks] == ["ß\nand more", ""]
    assert len(whole[1].progress) == 2
    for cut in range(len(MIXED)):
        assert in_chunks(MIXED, [cut]) == whole, f"cut at byte {cut}"


def test_single_bytes_change_nothing() -> None:
    assert in_chunks(MIXED, list(range(len(MIXED)))) == in_chunks(MIXED, [])


@pytest.mark.parametrize("name", sorted(path.name for path in REAL_LOGS.glob("*.log")))
@settings(max_examples=15, deadline=None)
@given(choice=st.data())
def test_random_chunks_of_real_logs_change_nothing(name: str, choice: st.DataObject) -> None:
    data = real(name)
    data = data[: choice.draw(st.integers(0, len(data)))]
    assert in_chunks(data, some_cuts(choice, data)) == in_chunks(data, [])


@settings(max_examples=200, deadline=None)
@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(MIXED.splitlines(keepends=True)),
            st.sampled_from([b"\r", b"\n", b"\r\n", b"\0", b"\xff", b"\x1b[", "é".encode()[:1]]),
        ),
        max_size=40,
    ),
    choice=st.data(),
)
def test_any_bytes_in_any_chunks_read_the_same(pieces: list[bytes], choice: st.DataObject) -> None:
    data = b"".join(pieces)
    assert in_chunks(data, some_cuts(choice, data)) == in_chunks(data, [])


def test_a_line_without_end_takes_bounded_memory_and_loses_no_traceback() -> None:
    reader = LogReader()
    tracemalloc.start()
    for _ in range(320):
        reader.feed(b"x" * 65536)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 4 * (HEAD_BYTES + TAIL_BYTES)
    reader.feed(b"\n" + PLAIN.encode())
    traceback = only(reader.finish())
    assert (traceback.line, traceback.offset) == (2, 320 * 65536 + 1)


def test_a_long_line_reads_the_same_in_chunks() -> None:
    data = b"start " + b"y" * 150_000 + b"\r" + b"z" * 90_000 + b"\r\n" + PLAIN.encode()
    assert in_chunks(data, [70_000, 100_000, 150_006, 150_007, 200_000, 240_007]) == in_chunks(data, [])
    assert only(read(data)).offset == data.index(b"Traceback")


def test_a_traceback_appears_with_its_exception_line_and_not_before() -> None:
    reader = LogReader()
    head, _, _ = PLAIN.partition("AssertionError")
    reader.feed(head.encode())
    assert reader.findings().tracebacks == ()
    reader.feed(b"AssertionError\n")
    assert only(reader.findings()).exception_type == "AssertionError"


def test_findings_are_cached_while_nothing_changes() -> None:
    reader = LogReader()
    reader.feed(PLAIN.encode() + b"what follows the traceback\n")
    first = reader.findings()
    assert reader.findings() is first
    reader.feed(b"a line of no interest\n")
    later = reader.findings()
    assert later.tracebacks is first.tracebacks
    assert later.lines_read == first.lines_read + 1
    assert later.bytes_read == first.bytes_read + len("a line of no interest\n")


def test_a_finished_log_takes_no_more() -> None:
    reader = LogReader()
    reader.finish()
    with pytest.raises(ValueError, match="finished"):
        reader.feed(b"more")


def test_offsets_count_bytes_and_lines_count_line_feeds() -> None:
    data = "größe 批 \0\r\nbar\rbar\r\n".encode() * 3 + PLAIN.encode()
    assert place(data, only(read(data))).startswith(b"Traceback")
