"""Bars that stand still are found by the log's own clocks, and only then."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_tools import PLAIN, read, real

from remote.logs.clock import SEARCH_BYTES, TAIL_BYTES
from remote.logs.findings import Findings, Stall
from remote.logs.reader import LogReader


def shards(last: int, start: int = 0, step: int = 30, worker: str = "(Worker_TP0 pid=17) ") -> str:
    return "".join(
        f"{worker}\rLoading safetensors checkpoint shards:  40% Completed | {n}/85 "
        f"[{n * step // 60:02d}:{n * step % 60:02d}<30:11, 30.7s/it]\n"
        for n in range(start, last + 1)
    )


def warning(clock: str) -> str:
    return f"(EngineCore pid=15) INFO 04-02 {clock} [shm_broadcast.py:466] No available shared memory broadcast block\n"


def heard(clock: str) -> str:
    return f"(Worker_TP0 pid=17) INFO 04-02 {clock} [x.py:1] something else\n"


def one(found: Findings) -> Stall:
    (stall,) = found.stalls
    return stall


def test_lines_with_times_behind_the_last_step_prove_a_stall() -> None:
    stall = one(read(shards(34) + warning("11:40:02") + warning("11:41:02") + warning("11:49:02")))
    assert (stall.done, stall.total, stall.gap_s, stall.usual_s, stall.ended) == (34, 85, 540, 30, False)
    assert (stall.worker, stall.kind, stall.line) == ("Worker_TP0", "safetensors_shards", 35)
    assert "9 min after 34 of 85; usually 30 s" in stall.text
    assert "storage" in stall.remedy


@pytest.mark.parametrize(
    "rest",
    [
        "",
        warning("11:40:02"),
        warning("11:40:02") + warning("11:43:02"),
        warning("11:40:02") + shards(35, 35) + warning("11:49:02"),
        heard("11:40:02")
        + "(Worker_TP0 pid=17) INFO 04-02 11:40:02 [x.py:1] Model loading took 7.1 GiB and 9.1 seconds\n"
        + warning("11:59:02"),
        "=== attempt 2\n" + warning("11:40:02") + warning("11:59:02"),
        warning("11:40:02") + warning("11:20:02"),
    ],
    ids=["no time", "one time", "short", "moved on", "next phase", "next attempt", "backwards"],
)
def test_no_stall_without_proof(rest: str) -> None:
    assert read(shards(34) + rest).stalls == ()


def test_two_gaps_are_too_few_to_say_what_is_usual() -> None:
    assert read(shards(2) + warning("11:40:02") + warning("18:40:02")).stalls == ()


def test_the_bars_own_clock_proves_a_stall_that_ended() -> None:
    late = (
        "(Worker_TP0 pid=17) \rLoading safetensors checkpoint shards:  41% Completed | 35/85 [37:00<1:30:11, 90s/it]\n"
    )
    stall = one(read(shards(34) + late))
    assert (stall.done, stall.gap_s, stall.usual_s, stall.ended, stall.line) == (34, 1200, 30, True, 35)
    assert "no step for 20 min after 34 of 85" in stall.text


def test_a_bar_drawn_again_without_a_step_stands_still() -> None:
    text = "".join(f"\rMap:  10%|█ | {n}/100 [00:{n:02d}<00:50, 1.00s/it]" for n in range(20))
    text += "".join(f"\rMap:  10%|█ | 19/100 [00:{n:02d}<00:50, 1.00s/it]" for n in range(20, 40))
    stall = one(read(text))
    assert (stall.done, stall.gap_s, stall.ended) == (19, 20, False)


def test_time_passes_for_the_caller_while_nothing_is_written() -> None:
    reader = LogReader()
    reader.feed(shards(34).encode(), at=1000.0)
    reader.feed(b"", at=1200.0)
    assert reader.findings().stalls == ()
    reader.feed(b"", at=1300.0)
    assert one(reader.findings()).gap_s == 300
    reader.feed(shards(35, 35).encode(), at=1301.0)
    assert reader.findings().stalls == ()


def test_what_was_left_behind_does_not_stall() -> None:
    reader = LogReader()
    reader.feed(shards(34).encode(), at=1000.0)
    reader.feed(b"(Worker_TP0 pid=17) Adding requests:   0%|          | 0/24 [00:00<?, ?it/s]\n", at=1000.0)
    reader.feed(b"", at=9000.0)
    assert reader.findings().stalls == ()


def test_a_failure_ends_the_gap() -> None:
    after = warning("11:40:02") + warning("11:49:02") + PLAIN + heard("11:49:03") + heard("23:00:00")
    assert one(read(shards(34) + after)).gap_s == 541


def test_long_work_behind_a_full_bar_is_told_with_its_name() -> None:
    full = shards(85) + heard("11:00:00")
    assert read(full + heard("11:03:50")).stalls == ()
    assert read(shards(85, step=1) + heard("11:00:00") + heard("11:01:50")).stalls == ()
    stall = one(read(full + heard("11:12:00")))
    assert (stall.gap_s, stall.done) == (720, 85)
    assert "100 % read, then processing the loaded weights for at least 12 min" in stall.text


def test_times_of_two_formats_are_not_subtracted() -> None:
    other = "2025-04-02 18:40:02,117 - INFO - elsewhere\n"
    assert read(shards(34) + warning("11:40:02") + other).stalls == ()
    assert one(read(shards(34) + warning("11:40:02") + other + warning("11:50:02"))).gap_s == 600


def test_a_time_that_heads_the_bars_own_line_counts() -> None:
    stamp = "2025-04-02T11:{:02d}:00.000000000Z "
    text = "".join(stamp.format(n // 2) + shards(n, n, worker="") for n in range(8))
    text = text.replace("\r", "")
    stall = one(read(text + stamp.format(40) + "a line\n"))
    assert (stall.done, stall.gap_s) == (7, 37 * 60)


def test_a_healthy_real_load_has_no_stall() -> None:
    assert read(real("tp2_hs.log")).stalls == ()


def in_pieces(data: bytes, cuts: list[int]) -> Findings:
    reader = LogReader()
    for start, end in itertools.pairwise([0, *sorted(cuts), len(data)]):
        reader.feed(data[start:end])
    return reader.finish()


LONG = (
    shards(34)
    + heard("11:00:00").rstrip("\n")  # too long a line to be taken for a neighbour, in any chunks
    + "x" * (TAIL_BYTES + 7)
    + "\n"
    + "no time here\n" * 99
    + warning("11:40:02")
    + "y" * 999
    + "\n"
    + heard("12:00:00")
    + "last"
).encode()


@settings(max_examples=100, deadline=None)
@given(cuts=st.lists(st.integers(0, len(LONG)), max_size=8))
def test_a_stall_is_the_same_in_any_chunks(cuts: list[int]) -> None:
    found = in_pieces(LONG, cuts)
    assert one(found).gap_s == 1198
    assert found == in_pieces(LONG, [])


def test_a_stall_is_the_same_in_single_bytes() -> None:
    assert in_pieces(LONG, list(range(0, len(LONG), 5))) == in_pieces(LONG, [])


def test_a_time_far_behind_the_step_is_not_taken_for_its_neighbour() -> None:
    far = "no time here\n" * (SEARCH_BYTES // 12)
    assert read(shards(34) + far + warning("11:40:02") + warning("12:40:02")).stalls == ()


def test_a_reader_taken_up_again_goes_on_with_its_clocks() -> None:
    data = shards(34) + warning("11:40:02") + warning("11:49:02")
    reader = LogReader()
    reader.feed(data.encode()[:-150], at=5.0)
    reader = LogReader.restore(reader.save())
    reader.feed(data.encode()[-150:])
    assert one(reader.finish()).gap_s == 540
