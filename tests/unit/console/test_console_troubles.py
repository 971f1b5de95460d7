"""What went wrong, in the order in which it should be read."""

from __future__ import annotations

from dataclasses import replace

from console_fakes import failed_run

from compat.patch import PatchStatus
from console.troubles import bearing, find_patches, list_troubles, troubled_stage
from remote.logs.findings import Fatal, Findings, Traceback
from remote.views import ExceptionReport, PatchReport, StageView


def extract(findings: Findings, exception: ExceptionReport | None = None) -> StageView:
    return replace(failed_run().stages[3], findings=findings, exception=exception)


def test_the_root_cause_comes_first_and_wrappers_last() -> None:
    findings = Findings(
        tracebacks=(
            Traceback("RuntimeError", "Worker failed", (), wrapper=True, caused_by=2, line=1),
            Traceback("KeyError", "'a'", (), line=10),
            Traceback("ValueError", "bad", (), line=20),
        ),
        root_cause=2,
        reason="because",
    )
    troubles = list_troubles(extract(findings))
    assert [(t.role, t.index) for t in troubles] == [("root cause", 2), ("also", 1), ("wrapper", 0)]
    assert troubles[0].reason == "because"


def test_the_block_hashes_assertion_leads_to_prefix_caching() -> None:
    first = list_troubles(failed_run().stages[3])[0]
    assert first.headline == "AssertionError at `assert len(request.block_hashes) >= num_full_blocks`"
    assert first.matches[0].patch == "prefix-caching"


def test_wrappers_are_not_matched_to_patches() -> None:
    asked: list[str] = []

    def matcher(exception: str, message: str, frames: object, patches: object) -> tuple[()]:
        asked.append(exception)
        return ()

    list_troubles(failed_run().stages[3], (), matcher)
    assert asked == ["AssertionError"]


def test_a_wrapper_whose_cause_is_not_in_the_log_is_matched_by_the_text_it_wraps() -> None:
    inner = "'LlamaModel' object has no attribute 'get_input_embeddings'"
    message = f'Worker failed with error "{inner}", please check the stack trace above for the root cause'
    wrapper = Traceback("RuntimeError", message.replace('"', "'"), (), wrapper=True)
    (only,) = list_troubles(extract(Findings(tracebacks=(wrapper,), root_cause=0)))
    assert [match.patch for match in only.matches] == ["embed-input-ids"]


def test_what_was_in_force_in_the_attempt_says_how_a_patch_bears_on_its_failure() -> None:
    host = (PatchStatus("prefix-caching", "", "needed", "as installed"),)
    off = list_troubles(failed_run().stages[3], host)[0].matches[0]  # the attempt's record: off
    assert off.why.endswith("versions match; patch is off")
    assert bearing(off) == "mends this"
    report = PatchReport("prefix-caching", "driver", "active")
    active = list_troubles(replace(failed_run().stages[3], patches=(report,)), host)[0].matches[0]
    assert bearing(active) == "is about this, and was active"
    foreign = (PatchStatus("prefix-caching", "", "not applicable", "vLLM 0.11.0 is outside"),)
    other = list_troubles(replace(failed_run().stages[3], patches=()), foreign)[0].matches[0]
    assert bearing(other) == "mends this in another environment"


def test_a_death_without_traceback_is_listed_with_its_remedy() -> None:
    findings = Findings(fatal=(Fatal("killed", "out of memory", signal=9, remedy="less"),), root_cause_fatal=0)
    (only,) = list_troubles(extract(findings))
    assert (only.role, only.headline) == ("root cause", "killed: out of memory")


def test_the_stage_s_own_report_is_shown_when_the_log_has_no_traceback() -> None:
    report = ExceptionReport("ValueError", "", "Traceback …\nValueError")
    assert [t.role for t in list_troubles(extract(Findings(), report))] == ["reported"]
    assert [t.role for t in list_troubles(extract(failed_run().stages[3].findings, report))] == [
        "root cause",
        "wrapper",
    ]


def test_the_stage_to_look_at_is_the_one_asked_for_if_it_has_anything() -> None:
    run = failed_run()
    prepare = replace(run.stages[2], findings=Findings(tracebacks=(Traceback("KeyError", "", ()),)))
    run = replace(run, stages=(*run.stages[:2], prepare, run.stages[3]))
    assert troubled_stage(run).name == "extract"  # type: ignore[union-attr]
    assert troubled_stage(run, "prepare").name == "prepare"  # type: ignore[union-attr]
    assert troubled_stage(run, "target").name == "extract"  # type: ignore[union-attr]
    assert troubled_stage(None) is None


def test_matching_is_remembered() -> None:
    frames = failed_run().stages[3].findings.tracebacks[0].frames
    assert find_patches("AssertionError", "", frames) is find_patches("AssertionError", "", frames)
