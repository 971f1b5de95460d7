"""What headless commands print: sentences, log lines at any chunking, news of a run."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from console import reports
from console.errors import UserError
from remote.logs.findings import Findings, Frame, Traceback
from remote.views import AttemptView, RunView, StageView

SOURCE = "assert len(request.block_hashes) >= num_full_blocks"
FRAME = Frame("/env/vllm/v1/core/block_pool.py", 238, "cache_full_blocks", SOURCE)
CAUSE = Traceback("AssertionError", "", (FRAME,), worker="Worker_TP0", workers=("Worker_TP0", "Worker_TP1"))
WRAPPER = Traceback("RuntimeError", "Worker failed with error ''", (), wrapper=True, caused_by=0)
NOTHING = Findings()


def run(state: str, *, note: str = "", findings: Findings = NOTHING) -> RunView:
    attempt = AttemptView(1, "exited" if state != "running" else state, rc=1 if state == "failed" else None)
    notes = (note,) if note else ()
    stage = StageView("extract", "Extract", state, (attempt,), notes=notes, findings=findings)
    return RunView("R1", "p", 0.0, "seed", {"vllm": "0.16.0"}, (stage,))


def test_the_root_cause_comes_first_with_its_frames_workers_and_patch() -> None:
    view = run("failed", findings=Findings(tracebacks=(CAUSE, WRAPPER), root_cause=0, reason="It came first."))
    report = reports.tracebacks_json(view, view.stages[0])
    assert [entry["patch"] for entry in report["tracebacks"]] == ["prefix-caching", None]
    lines = reports.tracebacks_text(report).splitlines()
    assert lines[2].startswith("[root cause] AssertionError at `assert len(request.block_hashes)")
    assert "(Worker_TP0, Worker_TP1)" in lines[2]
    assert "  /env/vllm/v1/core/block_pool.py:238 in cache_full_blocks" in lines
    assert "[wrapper] RuntimeError: Worker failed with error ''" in lines


def test_a_log_without_tracebacks_says_so() -> None:
    view = run("done")
    assert reports.tracebacks_text(reports.tracebacks_json(view, view.stages[0])).endswith("no traceback.")


def test_news_is_told_once() -> None:
    changes = reports.Changes()
    assert len(changes.lines(run("running", note="8.3 GB"))) == 2
    assert changes.lines(run("running", note="8.3 GB")) == []
    assert "failed" in changes.lines(run("failed", note="8.3 GB"))[0]


LOG = "plain\nüñí\x1b]52;c;UFdORUQ=\x07 end\n\nlast without newline".encode()


@given(st.lists(st.integers(0, len(LOG)), max_size=8))
def test_a_log_is_printed_the_same_whatever_the_chunks_and_never_drives_the_terminal(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(LOG)]
    chunks = [LOG[a:b] for a, b in pairwise(places)]
    printed = b"".join(reports.log_output(chunks, raw=False, as_json=False))
    assert printed.splitlines()[0] == b"plain" and printed.count(b"\n") == 4
    assert b"\x1b" not in printed and "üñí".encode() in printed
    assert b"".join(reports.log_output(chunks, raw=True, as_json=False)) == LOG


def test_json_lines_carry_offsets_into_the_log() -> None:
    rows = [json.loads(line) for line in reports.log_output([LOG], raw=False, as_json=True)]
    assert [LOG[row["offset"] :].startswith(row["text"].encode()) for row in rows] == [True] * 4


def test_an_error_is_two_sentences_whatever_its_authors_left_off() -> None:
    assert str(UserError("no link to x", "wait a little")) == "No link to x. Wait a little."
    assert str(UserError("It broke.", "")) == "It broke."
