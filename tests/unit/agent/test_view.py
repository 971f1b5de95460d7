"""A run's view: states from files and processes, events folded, damage shown and never hidden, frames that fit."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from faults.fake_host import FakeHost, py, sh, until

from remote import protocol
from remote.agent import fit
from remote.agent.events import Events
from remote.agent.view import RunReader, stage_state, without_clocks
from remote.logs.findings import Findings, Frame, Traceback
from remote.views import AttemptView, ExceptionReport, PatchReport, RunView, StageView
from remote.wire import from_wire

FAILING = """
import sys
def outer():
    inner()
def inner():
    assert 1 == 2, "block_hashes"
print("loading", flush=True)
outer()
"""


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [
        (None, "waiting"),
        (AttemptView(1, "created"), "running"),
        (AttemptView(1, "lost_supervisor"), "running"),
        (AttemptView(1, "lost_supervisor", stop_requested=True), "stopping"),
        (AttemptView(1, "stopping", stop_requested=True), "stopping"),
        (AttemptView(1, "exited", rc=0), "done"),
        (AttemptView(1, "exited", rc=1), "failed"),
        (AttemptView(1, "exited", rc=0, stop_requested=True), "stopped"),
        (AttemptView(1, "signaled", signal=9), "failed"),
        (AttemptView(1, "signaled", signal=15, stop_requested=True), "stopped"),
        (AttemptView(1, "failed_to_start"), "failed"),
        (AttemptView(1, "lost"), "lost"),
        (AttemptView(1, "lost_reboot"), "lost"),
    ],
)
def test_a_stage_is_in_the_state_of_its_latest_attempt(attempt: AttemptView | None, expected: str) -> None:
    assert stage_state(attempt) == expected


def test_a_failure_comes_with_its_traceback_and_the_log_with_its_identity(host: FakeHost) -> None:
    run = host.start(py("one", FAILING))
    attempt = host.attempt(run, "one")
    host.over(attempt)
    stage = host.view(run).stages[0]
    assert stage.state == "failed"
    assert stage.latest is not None and stage.latest.log_bytes == Path(attempt.log).stat().st_size
    found = stage.findings
    assert found.root_cause is not None
    assert found.tracebacks[found.root_cause].exception_type == "AssertionError"
    assert [f.function for f in found.tracebacks[found.root_cause].frames] == ["<module>", "outer", "inner"]


def test_a_watcher_reads_only_what_is_new_and_ends_with_the_same_view(host: FakeHost) -> None:
    gate = host.folder / "gate"
    script = f"import os, time\nprint('a', flush=True)\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)\n"
    run = host.start(py("one", script + FAILING))
    host.logged(host.attempt(run, "one"), "a")
    reader = RunReader(host.state.run(run))
    while reader.look():
        continue
    first = reader.view()
    assert first.stages[0].findings.bytes_read == 2
    assert not first.stages[0].findings.tracebacks
    gate.touch()
    host.over(host.attempt(run, "one"))
    while reader.look():
        continue
    assert reader.view() == host.view(run)
    assert reader.view().stages[0].findings.tracebacks


def test_what_moves_by_itself_is_no_change(host: FakeHost) -> None:
    run = host.start(sh("one", "sleep 600"))
    reader = RunReader(host.state.run(run))
    reader.look()
    first = reader.view()
    until(lambda: (reader.look(), reader.view())[1] != first)
    assert without_clocks(reader.view()) == without_clocks(first)
    first_elapsed, elapsed = first.stages[0].attempts[0].elapsed, reader.view().stages[0].attempts[0].elapsed
    assert first_elapsed is not None and elapsed is not None and elapsed > first_elapsed


@pytest.mark.parametrize(
    ("name", "content"), [("status.json", '{"v": 1, "sta'), ("status.json", '{"v": 99}'), ("spec.json", "")]
)
def test_a_damaged_or_newer_file_is_shown_with_its_reason(host: FakeHost, name: str, content: str) -> None:
    run = host.start(sh("one", "exit 3"))
    attempt = host.attempt(run, "one")
    host.over(attempt)
    (Path(attempt.folder) / name).write_text(content)
    view = host.view(run)
    assert view.error and f"{run}/one/1: {name}" in view.error
    assert view.stages[0].latest is not None
    assert view.stages[0].latest.rc == 3, "exit.rec still knows it"


def test_a_status_that_is_lost_with_its_record_is_lost_and_not_hidden(host: FakeHost) -> None:
    run = host.start(sh("one", "exit 3"))
    attempt = host.attempt(run, "one")
    host.over(attempt)
    Path(attempt.status).write_text("{")
    Path(attempt.record).unlink()
    latest = host.view(run).stages[0].latest
    assert latest is not None
    assert (latest.state, latest.rc) == ("lost", None)
    assert "status.json" in (latest.error or "")


@pytest.mark.parametrize("content", ["", "{", '{"v": 99}', None])
def test_a_run_without_a_readable_description_shows_what_its_folders_tell(host: FakeHost, content: str | None) -> None:
    run = host.start(sh("one", "exit 3"))
    host.over(host.attempt(run, "one"))
    path = host.folder / "runs" / run / "run.json"
    path.unlink() if content is None else path.write_text(content)
    view = host.view(run)
    assert view.error and "run.json" in view.error
    assert [(s.name, s.state) for s in view.stages] == [("one", "failed")]
    assert view.created > 1.7e9


def test_an_attempt_that_never_began_is_on_its_way_first_and_lost_later(host: FakeHost) -> None:
    run = host.start(sh("one", "exit 3"))
    attempt = host.attempt(run, "one")
    host.over(attempt)
    for name in ("status.json", "exit.rec"):
        (Path(attempt.folder) / name).unlink()
    assert host.reading(attempt).view.state == "created"
    spec = json.loads(Path(attempt.spec).read_text())
    Path(attempt.spec).write_text(json.dumps({**spec, "created_boot": spec["created_boot"] - 3600}))
    view = host.reading(attempt).view
    assert (view.state, view.clean) == ("lost", True)
    assert "never began" in (view.error or "")


def test_events_become_progress_metrics_artifacts_patches_notes_and_the_exception(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    lines: list[Any] = [
        {"kind": "progress", "label": "samples", "done": 1, "total": 4, "unit": "samples", "eta_s": 3.5},
        {"kind": "progress", "label": "samples", "done": 2},
        {"kind": "metric", "name": "tokens", "value": 12},
        {"kind": "metric", "name": "broken", "value": "many"},
        {"kind": "artifact", "path": "/a"},
        {"kind": "artifact", "path": "/a"},
        {"kind": "note", "text": "8.3 GB"},
        {"kind": "patch", "id": "p", "state": "active", "process": "worker", "digest": "12", "replaced_digest": "34"},
        {"kind": "patch", "id": "p", "state": "not applicable", "process": "driver"},
        {"kind": "patch", "id": "q", "state": "off", "process": "driver", "reason": "switched off"},
        {"kind": "patch", "id": "p", "state": "active", "process": "worker", "digest": "12", "replaced_digest": "34"},
        {"kind": "patch", "state": "active"},
        {"kind": "exception", "type": "ValueError", "message": "m", "text": "Traceback…"},
        {"kind": "from the future"},
        "torn",
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    events = Events(str(path))
    while events.read():
        continue
    assert events.progress is not None
    assert (events.progress.done, events.progress.total) == (2.0, None)
    assert events.metrics == {"tokens": 12.0}
    assert events.artifacts == ["/a"]
    assert events.patches == (
        PatchReport("p", "worker", "active", digest="12", replaced_digest="34", processes=2),
        PatchReport("q", "driver", "off", "switched off"),
    )
    assert events.notes == ["8.3 GB"]
    assert events.exception == ExceptionReport("ValueError", "m", "Traceback…")


def monstrous(count: int, message: int) -> RunView:
    random.seed(1)
    frames = tuple(Frame(f"/f{n}.py", n, f"f{n}", "x = 1") for n in range(60))
    tracebacks = tuple(
        Traceback("E", "m" * message, frames, chained_from=n - 1 if n else None, line=n) for n in range(count)
    )
    findings = Findings(tracebacks=tracebacks, root_cause=count - 1)
    stage = StageView("one", "One", findings=findings, exception=ExceptionReport("E", "m", "t" * 3_000_000))
    return RunView("20260101T000000Z-00000000", "p", 0.0, "seed", stages=(stage,))


@pytest.mark.parametrize(("count", "message"), [(1, 5_000_000), (2000, 10), (300, 100_000)])
def test_a_view_that_is_too_large_for_a_frame_is_shortened_and_says_so(count: int, message: int) -> None:
    line = fit.encode_view(lambda wire: {"run": wire}, monstrous(count, message))
    assert len(line) <= protocol.LINE_CAP
    stage = from_wire(RunView, json.loads(line)["run"]).stages[0]
    assert any("Shortened for the link" in note for note in stage.notes)
    found = stage.findings
    assert found.root_cause is not None
    assert found.tracebacks[found.root_cause].line == count - 1, "the root cause is never left out"
    assert found.tracebacks[found.root_cause].frames[-1].function == "f59"
    for at, one in enumerate(found.tracebacks):
        assert one.chained_from is None or found.tracebacks[one.chained_from].line == one.line - 1, at


def test_a_view_that_fits_is_sent_as_it_is() -> None:
    view = RunView("20260101T000000Z-00000000", "p", 0.0, "seed", stages=(StageView("one", "One", notes=("n",)),))
    assert from_wire(RunView, json.loads(fit.encode_view(lambda wire: wire, view))) == view
