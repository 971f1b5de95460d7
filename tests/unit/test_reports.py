"""What headless commands print: sentences, log lines at any chunking, news of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compat.catalogue import get
from compat.patch import PatchStatus
from console import patching, reports
from console.errors import UserError
from console.patching import Told
from console.sidebyside import side_by_side
from remote.logs.findings import Findings, Frame, Traceback
from remote.views import AttemptView, PatchReport, RunView, StageView

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


def test_the_environment_says_how_the_patch_stands_and_a_stranger_is_told_as_one() -> None:
    view = run("failed", findings=Findings(tracebacks=(CAUSE,), root_cause=0))
    host = (PatchStatus("prefix-caching", "", "off", "switched off"),)
    text = reports.tracebacks_text(reports.tracebacks_json(view, view.stages[0], None, host))
    assert "source line matches; versions match; patch is off" in text
    stranger = run("failed", findings=Findings(tracebacks=(Traceback("OddError", "", (FRAME,)),), root_cause=0))
    text = reports.tracebacks_text(reports.tracebacks_json(stranger, stranger.stages[0], None, host))
    assert "no patch of the catalogue is known to mend this" in text


PATCH = PatchStatus(
    "prefix-caching",
    "Prefix caching is on by default",
    "needed",
    "cache.py:76",
    cause="A default was flipped.",
    since="vLLM since 0.12.0",
    mend="Turns it off.",
    silent=True,
    gate="rows",
    code="def apply() -> None:\n\tmend()",
    digest="12ab" * 16,
    replaces="speculators.generator.Generator.make",
    replaced_at="speculators/generator.py:141",
    replaced_code="    def make(self):\n        return \x1b]52;c;UFdORUQ=\x07Config()\n",
)


def test_a_patch_is_explained_with_both_pieces_of_code_stacked_or_side_by_side() -> None:
    report = PatchReport("prefix-caching", "worker", "active", "", "34cd" * 16, "56ef" * 16, 8)
    view = replace(run("done"), stages=(replace(run("done").stages[0], patches=(report,)),))
    narrow = reports.patch_text(PATCH, view, 80).splitlines()
    told = "extract #1: active in 8 workers, patch 34cd34cd34cd (it has changed since) in place of 56ef56ef56ef"
    assert told in " ".join(line.strip() for line in narrow)
    assert all(len(line) <= 80 for line in narrow)
    assert "  nothing is ever raised, only the data is wrong; the gate `rows` catches it" in narrow
    assert narrow.index("    mend()") < narrow.index("what it replaces  Generator.make")
    assert "    return ␛Config()" in narrow
    wide = reports.patch_text(PATCH, view, 120).splitlines()
    assert next(line for line in wide if "mend()" in line).split() == ["mend()", "return", "␛Config()"]
    assert all(len(line) <= 120 for line in wide[-4:])
    hostile = replace(PATCH, code=f"\x1b]52;c;{'A' * 90}\x07")  # longer than a column: nothing of it may be left over
    assert "AA" not in reports.patch_text(hostile, view, 120)
    assert [r["attempt"] for r in reports.patch_json(PATCH, view)["reports"]] == [1]
    assert reports.patch_json(PATCH, None)["reports"] == []


def test_the_status_counts_the_patches_of_each_stage_and_names_those_not_in_force() -> None:
    reports_told = (
        PatchReport("one", "driver", "active"),
        PatchReport("two", "driver", "active"),
        PatchReport("three", "worker", "active", processes=8),
        PatchReport("four", "driver", "off"),
        PatchReport("two", "worker", "refused", "it is not in force"),
    )
    view = replace(run("done"), stages=(replace(run("done").stages[0], patches=reports_told),))
    wanted = "      patches: 2 active in the driver; 1 active in workers; off: four; refused: two"
    assert wanted in reports.run_text(view).splitlines()
    assert "patches" not in reports.run_text(run("done"))


def test_what_does_not_concern_the_environment_is_listed_last() -> None:
    states = ("not applicable", "needed", "not applicable", "off")
    rows = [replace(PATCH, id=f"{n}", state=state) for n, state in enumerate(states)]
    assert [line[16] for line in reports.patches_text(Told(tuple(rows))).splitlines()] == ["1", "3", "0", "2"]


def test_the_list_says_what_is_installed_and_why_a_patch_is_refused_once() -> None:
    trouble = "two copies of vLLM are in /env (vllm 0.15.1, vllm 0.16.0): remove all but one"
    rows = (replace(PATCH, state="refused", reason=trouble), replace(PATCH, state="refused", reason="other code"))
    lines = reports.patches_text(Told(rows, ("speculators 0.3.0", trouble), (trouble,))).splitlines()
    assert lines[:2] == ["speculators 0.3.0", trouble]
    assert sum(trouble in line for line in lines) == 1
    assert lines[-1] == "    other code"


def test_advice_says_what_to_do_instead_and_has_no_switch() -> None:
    advice = replace(PATCH, advice=True, code="", silent=False)
    text = reports.patch_text(advice, None, 80)
    assert "what to do instead\n  Turns it off." in text
    assert "nothing at run time mends this" in text
    assert "where it breaks  Generator.make" in text
    assert "switch" not in text


def test_a_switch_of_advice_or_of_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    patching.require_switch("prefix-caching")
    with pytest.raises(UserError, match="There is no patch"):
        patching.require_switch("prefx-caching")
    entry = get("prefix-caching")
    assert entry
    monkeypatch.setattr(patching, "get", lambda _: replace(entry, apply=None))
    with pytest.raises(UserError, match="nothing at run time mends it"):
        patching.require_switch("prefix-caching")


@pytest.mark.parametrize("width", [24, 41, 120])
def test_columns_never_outgrow_the_width(width: int) -> None:
    left = ["", "    " + "word " * 9, "x" * 50]
    rows = side_by_side(left, ["short"], width)
    assert all(len(row) <= width for row in rows)
    joined = "".join(row.replace(" ", "") for row in rows)
    assert joined.replace("short", "") == "word" * 9 + "x" * 50


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
