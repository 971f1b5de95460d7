"""A log that runs over New Year: stamps without a year keep their order."""

from __future__ import annotations

import pytest

from remote.logs.index import LineIndex
from remote.logs.moments import Moment, parse_moment
from remote.logs.reader import LogReader

DAYS = ("12-30", "12-31", "01-01", "01-02")
LINES = [b"(W pid=1) INFO %s %02d:00:00 [a.py:1] x\n" % (day.encode(), hour) for day in DAYS for hour in range(24)]
LOG = b"".join(LINES)


@pytest.mark.parametrize("step", [1, 200, 1 << 20])
@pytest.mark.parametrize(
    ("asked", "line"), [("12-30 05:00", 5), ("12-31 22:30", 47), ("01-01 00:00", 48), ("01-02 07:00", 79)]
)
def test_a_time_on_either_side_of_new_year_leads_to_its_line(step: int, asked: str, line: int) -> None:
    index = LineIndex(step)
    index.feed(LOG)
    place = index.offset_at(parse_moment(asked, None), lambda offset, size: LOG[offset : offset + size])
    assert place == line * len(LINES[0])


def test_a_time_before_the_log_leads_to_its_start_and_one_behind_it_to_its_end() -> None:
    index = LineIndex(200)
    index.feed(LOG)
    for asked, place in (("12-24 12:00", 0), ("01-06 12:00", len(LOG))):
        moment = parse_moment(asked, None)
        assert index.offset_at(moment, lambda offset, size: LOG[offset : offset + size]) == place


def test_moments_compare_the_near_way_round_the_year() -> None:
    before, after = Moment(12, 31, 86399), Moment(1, 1, 0)
    assert before < after and before <= after and after > before and after >= before
    assert not (after < before or after <= before or before > after or before >= after)
    assert before <= Moment(12, 31, 86399) >= before and not before < Moment(12, 31, 86399)
    assert Moment(2, 28, 0) < Moment(2, 29, 0) < Moment(3, 1, 0) < Moment(6, 1, 0)


def bar(last: int, worker: int = 0) -> str:
    return "".join(
        f"(Worker_TP{worker} pid=1{worker}) \rLoading safetensors checkpoint shards:  40% Completed | {n}/85 "
        f"[{n // 2:02d}:{n % 2 * 30:02d}<30:11, 30.7s/it]\n"
        for n in range(last + 1)
    )


def stamped(when: str) -> str:
    return f"(EngineCore pid=15) INFO {when} [shm_broadcast.py:466] No available shared memory broadcast block\n"


SYSLOG = "{} host vllm[9]: No available shared memory broadcast block\n"


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (stamped("12-31 23:58:00"), stamped("01-01 00:07:00")),
        (SYSLOG.format("Dec 31 23:58:00"), SYSLOG.format("Jan  1 00:07:00")),
    ],
    ids=["vllm", "syslog"],
)
def test_a_stall_over_new_year_is_found_and_measured(first: str, last: str) -> None:
    reader = LogReader()
    reader.feed((bar(34) + first + last).encode())
    (stall,) = reader.finish().stalls
    assert (stall.done, stall.gap_s, stall.ended) == (34, 540, False)


def test_a_worker_that_loads_on_after_new_year_has_not_stood_still_for_a_year() -> None:
    log = bar(34) + stamped("12-31 23:58:00") + stamped("01-01 00:07:00") + bar(34, 1) + stamped("01-01 00:07:30")
    reader = LogReader()
    reader.feed((log + stamped("01-01 00:07:40")).encode())
    (stall,) = reader.finish().stalls
    assert (stall.worker, stall.gap_s) == ("Worker_TP0", 580)
