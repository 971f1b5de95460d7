"""The reducers: frames in, Snapshots out, and a malformed or foreign frame changes nothing."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from console_fakes import LOG, PATCHES, RUN, LinkState, failed_run, running_run, sample

from console import store
from console.logwindow import LogKey, LogWindow
from console.store import Snapshot
from remote import protocol
from remote.views import WAITING
from remote.wire import to_wire


def watching() -> Snapshot:
    return store.show_run(Snapshot(), RUN)


def test_a_run_is_taken_only_when_it_is_the_one_that_is_shown() -> None:
    frame = {"ev": protocol.RUN, "run": to_wire(failed_run())}
    assert store.reduce_frame(watching(), frame, 5.0).run == failed_run()
    other = store.show_run(Snapshot(), "20260101T000000Z-00000000")
    assert store.reduce_frame(other, frame, 5.0) is other


def test_elapsed_goes_on_while_the_attempt_runs_and_the_link_is_up() -> None:
    snapshot = store.reduce_run(watching(), to_wire(running_run()), 100.0)
    attempt = running_run().stages[3].attempts[0]
    up = store.reduce_link(snapshot, LinkState("connected"), 100.0)
    assert up.elapsed(attempt, 107.0) == 70.0
    down = store.reduce_link(snapshot, LinkState("waiting", retry_in=4.0), 100.0)
    assert down.elapsed(attempt, 107.0) == 63.0
    assert down.link.retry_at == 104.0
    assert up.elapsed(replace(attempt, state="exited"), 107.0) == 63.0


def test_every_string_of_a_view_is_safe() -> None:
    run = to_wire(failed_run())
    run["stages"][0]["title"] = "x\x1b]52;c;QQ==\x07"
    run["stages"][3]["findings"]["tracebacks"][0]["message"] = "two\nlines\x9b2J"
    taken = store.reduce_run(watching(), run, 0.0).run
    assert taken is not None
    assert "\x1b" not in taken.stages[0].title
    assert taken.stages[3].findings.tracebacks[0].message.startswith("two\nlines")
    assert "\x9b" not in taken.stages[3].findings.tracebacks[0].message
    link = store.reduce_link(Snapshot(), LinkState("refused", "no\x1b[2J", "do\x07", host="h\u202e"), 0.0).link
    assert "\x1b\x07\u202e" not in link.detail + link.remedy + link.host


@pytest.mark.parametrize(
    "frame",
    [
        {"ev": protocol.RUN},
        {"ev": protocol.RUN, "run": {"run": RUN}},
        {"ev": protocol.RUN, "run": 7},
        {"ev": protocol.SAMPLE, "sample": {}},
        {"ev": protocol.SAMPLE, "sample": {"at": 1.0, "gpus": 3}},
        {"ev": protocol.DATA, "tail": "t", "offset": "x", "data": "YQ=="},
        {"ev": protocol.DATA, "tail": "t", "offset": 0, "data": "?"},
        {"ev": protocol.DATA, "tail": "t"},
        {"ev": protocol.SAMPLE, "sample": {"at": float("nan")}},
        {"ev": protocol.SAMPLE, "sample": {"at": 1.0, "memory_total": "much", "memory_available": 1}},
        {"ev": protocol.RUN, "run": {"run": RUN, "project": "p", "created": 1.0, "pair": "s", "stages": [{"name": 3}]}},
    ],
)
def test_a_malformed_frame_is_said_and_changes_nothing_else(frame: dict[str, Any]) -> None:
    before = store.open_log(watching(), LogWindow(LogKey(RUN, "extract", 1), "t"))
    after = store.reduce_frame(before, frame, 1.0)
    assert after.problem is not None
    assert str(frame["ev"]) in after.problem.message
    assert replace(after, problem=None) == before


@pytest.mark.parametrize("frame", [{"ev": "news"}, {}, {"ev": protocol.END, "tail": "other"}])
def test_a_frame_of_a_newer_host_changes_nothing(frame: dict[str, Any]) -> None:
    before = store.open_log(watching(), LogWindow(LogKey(RUN, "extract", 1), "t"))
    assert store.reduce_frame(before, frame, 1.0) is before


def test_data_of_another_tail_is_not_taken() -> None:
    before = store.open_log(watching(), LogWindow(LogKey(RUN, "extract", 1), "t2"))
    data = base64.b64encode(LOG).decode()
    frame = {"ev": protocol.DATA, "tail": "t1", "offset": 0, "log_id": "1:1", "data": data}
    assert store.reduce_frame(before, frame, 0.0) is before
    assert store.reduce_frame(before, {**frame, "tail": "t2"}, 0.0).log.count == 30


def test_another_log_takes_what_was_read_in_the_old_one_away() -> None:
    reading = replace(watching(), browsed=LogWindow(LogKey(RUN, "x", 1)), looking="searching …")
    opened = store.open_log(reading, LogWindow(LogKey(RUN, "extract", 1), "t"))
    assert (opened.browsed, opened.looking) == (None, "")
    assert store.show_run(reading, "20260101T000000Z-00000000").browsed is None


def test_the_end_of_a_tail_is_known() -> None:
    before = store.open_log(watching(), LogWindow(LogKey(RUN, "extract", 1), "t"))
    assert store.reduce_frame(before, {"ev": protocol.END, "tail": "t"}, 0.0).log.ended
    assert not store.reduce_frame(before, {"ev": protocol.END, "tail": "other"}, 0.0).log.ended


def test_a_sample_has_an_age() -> None:
    snapshot = store.reduce_frame(Snapshot(), {"ev": protocol.SAMPLE, "sample": to_wire(sample())}, 50.0)
    assert snapshot.telemetry == sample()
    assert snapshot.telemetry_age(53.5) == 3.5
    assert Snapshot().telemetry_age(1.0) is None


def test_the_log_follows_the_live_attempt_then_the_failed_one_then_the_latest() -> None:
    assert store.log_target(running_run()) == LogKey(RUN, "extract", 1)
    run = failed_run()
    assert store.log_target(run) == LogKey(RUN, "extract", 1)
    waiting = replace(run.stages[3], state=WAITING, attempts=())
    assert store.log_target(replace(run, stages=(*run.stages[:3], waiting))) == LogKey(RUN, "prepare", 1)
    assert store.log_target(None) is None


def test_attempts_are_walked_over_all_stages() -> None:
    snapshot = store.reduce_run(watching(), to_wire(failed_run()), 0.0)
    snapshot = store.open_log(snapshot, LogWindow(LogKey(RUN, "extract", 1), "t"))
    assert store.neighbour_attempt(snapshot, -1) == LogKey(RUN, "prepare", 1)
    assert store.neighbour_attempt(snapshot, 1) is None
    first = store.open_log(snapshot, LogWindow(LogKey(RUN, "provision", 1), "t"))
    assert store.neighbour_attempt(first, -1) is None


def test_a_switch_is_shown_as_turned_before_the_host_answers() -> None:
    snapshot = store.reduce_patches(Snapshot(), {"patches": to_wire(PATCHES)})
    turned = store.reduce_switch(snapshot, "kv-cache-config", "off").patch("kv-cache-config")
    assert turned is not None
    assert (turned.switch, turned.state) == ("off", "needed")
    assert store.reduce_switch(Snapshot(), "kv-cache-config", "off").patches is None


def test_switches_go_round_auto_off_on() -> None:
    assert [store.NEXT_SWITCH["auto"], store.NEXT_SWITCH["off"], store.NEXT_SWITCH["on"]] == ["off", "on", "auto"]


def test_another_run_takes_the_old_log_away() -> None:
    snapshot = store.open_log(
        store.reduce_run(watching(), to_wire(failed_run()), 0.0), LogWindow(LogKey(RUN, "x", 1), "t")
    )
    assert store.show_run(snapshot, RUN).log.key is not None
    assert store.show_run(snapshot, "20260101T000000Z-00000000").log.key is None


def test_the_session_s_refused_subscription_is_a_problem_with_its_remedy() -> None:
    error = {"kind": "no_such_run", "message": "no run\x1b[2J", "remedy": "start one"}
    problem = store.reduce_frame(Snapshot(), {"ev": "failed", "op": "watch", "run": RUN, "error": error}, 0.0).problem
    assert problem is not None
    assert problem.remedy == "start one"
    assert "\x1b" not in problem.message
