"""The agent over its pipes: every operation, and what it does with nonsense."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.agent_link import AgentLink
from faults.fake_host import FakeHost, py, sh, until

from remote import protocol
from remote.protocol import RemoteError
from remote.views import RunView, TelemetryView
from remote.wire import from_wire


@pytest.fixture
def link(host: FakeHost) -> Iterator[AgentLink]:
    made = AgentLink.to(host)
    yield made
    made.kill()


def start(link: AgentLink, *stages: dict[str, Any], **more: Any) -> str:
    given = {"project": "demo", "request_id": os.urandom(4).hex(), "switches": {}, "secrets": {}, **more}
    run: str = link.ask(protocol.START, settings={"stages": list(stages)}, **given)["run"]
    return run


def test_hello_says_where_and_what_it_is(host: FakeHost, link: AgentLink) -> None:
    hello = link.hello
    assert (hello["version"], hello["min_version"]) == (protocol.VERSION, protocol.MIN_VERSION)
    assert (hello["state"], hello["bundle"]) == (str(host.folder), host.bundle.name)
    assert hello["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (hello["uid"], hello["cpus"]) == (os.getuid(), os.cpu_count())
    assert hello["python"] == sys.version.split()[0]


def test_a_watched_run_is_pushed_as_it_changes(host: FakeHost, link: AgentLink) -> None:
    gate = host.folder / "gate"
    run = start(link, sh("one", f"while [ ! -e {gate} ]; do sleep 0.05; done"), py("two", "1/0"))
    link.ask(protocol.WATCH, run=run)
    link.view(run, lambda view: view.stages[0].state == "running")
    gate.touch()
    view = link.view(run, lambda view: view.state == "failed" and view.stages[1].findings.tracebacks)
    assert view.stages[1].findings.tracebacks[0].exception_type == "ZeroDivisionError"
    link.ask(protocol.UNWATCH, run=run)
    link.pushes.clear()
    link.push(protocol.BEAT)
    assert not [f for f in link.pushes if f["ev"] == protocol.RUN]


def test_a_run_in_which_nothing_happens_is_not_pushed_again(host: FakeHost, link: AgentLink) -> None:
    run = start(link, sh("one", "sleep 600"))
    link.ask(protocol.WATCH, run=run)
    link.view(run, lambda view: view.stages[0].state == "running")
    link.push(protocol.BEAT)
    link.pushes.clear()
    link.push(protocol.BEAT)
    assert [f["ev"] for f in link.pushes if f["ev"] == protocol.RUN] == []


def test_list_gives_the_runs_of_a_project_newest_first(host: FakeHost, link: AgentLink) -> None:
    runs = [start(link, sh("one", "true"), project=name) for name in ("a", "b", "a")]
    for run in runs:
        host.over(host.attempt(run, "one"))
    listed = link.ask(protocol.LIST, project="a")["runs"]
    assert sorted(r["run"] for r in listed) == sorted([runs[0], runs[2]])
    everything = link.ask(protocol.LIST, project=None)["runs"]
    assert [r["run"] for r in everything] == sorted(runs, reverse=True)
    assert from_wire(RunView, everything[0]).state == "done"


def test_a_damaged_run_is_listed_in_every_project(host: FakeHost, link: AgentLink) -> None:
    run = start(link, sh("one", "true"))
    host.over(host.attempt(run, "one"))
    (host.folder / "runs" / run / "run.json").write_text("{")
    listed = link.ask(protocol.LIST, project="another")["runs"]
    assert [r["run"] for r in listed] == [run]
    assert "run.json" in listed[0]["error"]


def test_show_gives_the_whole_run_and_stop_ends_it(host: FakeHost, link: AgentLink) -> None:
    run = start(link, sh("one", "echo up; exec sleep 600"))
    shown = from_wire(RunView, link.ask(protocol.SHOW, run=run)["run"])
    assert (shown.run, shown.project, shown.pair, shown.folder) == (run, "demo", "fake", f"{host.folder}/runs/{run}")
    assert link.ask(protocol.STOP, run=run) == {"stage": "one", "attempt": 1}
    assert host.over(host.attempt(run, "one")).view.stop_requested


def test_a_stop_does_not_wait_behind_a_slow_plan_nor_a_look_behind_slow_probes(host: FakeHost, link: AgentLink) -> None:
    gate = host.folder / "gate"
    run = start(link, sh("one", "exec sleep 600"))
    slow = {"wait": str(gate), "stages": [sh("one", "true")]}
    asked = {"settings": slow, "project": "demo", "request_id": "slow", "switches": {}, "secrets": {}}
    waiting = [link.send(protocol.START, **asked), link.send(protocol.PATCHES, settings=slow, switches={})]
    assert link.ask(protocol.STOP, run=run)["stage"] == "one"
    assert link.ask(protocol.SHOW, run=run)["run"]["run"] == run
    gate.touch()
    assert link.answer(waiting[0])["run"] != run
    assert link.answer(waiting[1])["patches"]


def test_relaunch_over_the_link(host: FakeHost, link: AgentLink) -> None:
    run = start(link, sh("one", "exit 1"))
    host.over(host.attempt(run, "one"))
    asked = {"run": run, "stage": "one", "request_id": "again", "switches": {}, "secrets": {}}
    assert link.ask(protocol.RELAUNCH, **asked) == {"run": run, "stage": "one", "attempt": 2}


def test_a_tail_gives_the_whole_log(host: FakeHost, link: AgentLink) -> None:
    run = start(link, sh("one", "yes 0123456789 | head -c 300000"))
    data = link.tail(run, "one")
    assert data == Path(host.attempt(run, "one").log).read_bytes()
    assert len(data) == 300000


@pytest.mark.parametrize("op", [protocol.PATCHES, protocol.DRIFT])
def test_patches_and_drift_are_asked_of_the_pipeline(link: AgentLink, op: str) -> None:
    answer = link.ask(op, settings={"x": 1}, switches={"mode": "off"})
    assert answer[op][0]["id"] == "one"
    assert answer[op][0]["given"] == {"settings": {"x": 1}, "switches": {"mode": "off"}}
    refused = {"kind": "bad_settings", "message": "m", "remedy": "r"}
    with pytest.raises(RemoteError) as error:
        link.ask(op, settings={"refuse": refused}, switches={})
    assert error.value.to_wire() == refused


def test_a_sample_is_asked_of_the_pipeline_with_the_settings_of_its_run(host: FakeHost, link: AgentLink) -> None:
    stage = sh("one", "true")
    run = start(link, stage)
    sample = link.ask(protocol.ROW, run=run, index=7)["sample"]
    folder = str(host.folder / "runs" / run)
    assert sample == {"settings": {"stages": [stage]}, "run_folder": folder, "index": 7}


def test_telemetry_comes_when_it_is_on_and_ends_when_it_is_off(link: AgentLink) -> None:
    link.ask(protocol.TELEMETRY, on=True, period=0.2)
    for _ in range(3):
        sample = from_wire(TelemetryView, link.push(protocol.SAMPLE)["sample"])
        assert sample.memory_total
        assert sample.gpus is not None or sample.gpu_reason
    link.ask(protocol.TELEMETRY, on=False)
    link.push(protocol.BEAT)
    link.pushes.clear()
    link.push(protocol.BEAT)
    assert [f for f in link.pushes if f["ev"] == protocol.SAMPLE] == []


@pytest.mark.parametrize(
    ("op", "fields", "kind"),
    [
        ("dance", {}, "unknown_op"),
        (protocol.SHOW, {}, "bad_request"),
        (protocol.SHOW, {"run": "../../x"}, "no_such_run"),
        (protocol.WATCH, {"run": "20260101T000000Z-00000000"}, "no_such_run"),
        (protocol.START, {"settings": 3}, "bad_request"),
        (protocol.START, {"settings": {}, "project": "p"}, "bad_request"),
        (protocol.START, {"settings": {}, "project": "p", "request_id": "r", "secrets": {"A=B": "x"}}, "bad_request"),
        (protocol.ROW, {"run": "../../x", "index": 0}, "no_such_run"),
        (protocol.TELEMETRY, {"period": -1}, "bad_request"),
        (protocol.TAIL, {"run": "x", "stage": "one", "attempt": 1}, "no_such_run"),
        (protocol.CREDIT, {"tail": "t", "bytes": -1}, "bad_request"),
    ],
)
def test_a_request_that_makes_no_sense_is_answered_and_the_agent_goes_on(
    link: AgentLink, op: str, fields: dict[str, Any], kind: str
) -> None:
    with pytest.raises(RemoteError) as refused:
        link.ask(op, **fields)
    assert refused.value.kind == kind
    assert link.ask(protocol.PING)["now"] > 0


def test_attempts_and_stages_that_do_not_exist_cannot_be_tailed(host: FakeHost, link: AgentLink) -> None:
    run = start(link, sh("one", "true"))
    for stage, attempt, kind in (
        ("two", 1, "no_such_attempt"),
        ("../one", 1, "no_such_stage"),
        ("one", 2, "no_such_attempt"),
    ):
        with pytest.raises(RemoteError) as refused:
            link.ask(protocol.TAIL, tail="t", run=run, stage=stage, attempt=attempt)
        assert refused.value.kind == kind


@pytest.mark.parametrize("nonsense", [b"not json\n", b"[1]\n", b"x" * ((1 << 20) + 2)], ids=["text", "list", "endless"])
def test_a_line_that_is_no_frame_ends_the_link_and_no_run(host: FakeHost, link: AgentLink, nonsense: bytes) -> None:
    run = start(link, sh("one", "exec sleep 600"))
    link.write(nonsense)
    assert link.process.wait(60) == 0
    assert host.reading(host.attempt(run, "one")).view.state == "running"


def test_an_internal_failure_is_one_sentence_with_the_traceback_on_standard_error(host: FakeHost) -> None:
    link = AgentLink.to(host, stderr=subprocess.PIPE)
    run = start(link, sh("one", "true"))
    host.over(host.attempt(run, "one"))
    path = host.folder / "runs" / run / "run.json"
    described = json.loads(path.read_text())
    path.write_text(json.dumps({**described, "created": "yesterday"}))
    with pytest.raises(RemoteError) as failed:
        link.ask(protocol.SHOW, run=run)
    assert failed.value.kind == "internal"
    assert "ValueError" in failed.value.message
    assert link.ask(protocol.PING)
    link.kill()
    assert link.process.stderr is not None
    assert b"Traceback (most recent call last)" in link.process.stderr.read()
    link.process.stderr.close()


def test_it_runs_for_a_long_time_with_a_console_that_only_beats(link: AgentLink) -> None:
    for _ in range(5):
        link.push(protocol.BEAT)
    assert link.process.poll() is None
    assert until(lambda: link.ask(protocol.PING))
