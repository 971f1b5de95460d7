"""The matcher on excerpts of real logs, read by the log reader: `failures/PATCH.log` is what that one printed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from compat.catalogue import PATCHES, get
from compat.matcher import match
from compat.patch import PatchStatus, State, Symptom
from remote.logs.reader import LogReader

LOGS = sorted((Path(__file__).parent / "failures").glob("*.log"))

NEVER_MET = {
    "native-extraction",
    "hashing-module",
    "v2-model-runner",
    "kv-cache-specs-required",
    "kv-cache-layout",
    "deepstack-inputs",
    "eos-token-id",
    "hidden-states-lock",
    "full-tracebacks",
    "request-starvation",
}
"""Failures without a log here: of releases, hardware or targets that were only read; the last two in tests/engine."""


@dataclass(frozen=True)
class Frame:
    file: str
    function: str
    source: str


def test_there_is_a_log_for_every_failure_that_was_met() -> None:
    raising = {patch.id for patch in PATCHES if patch.symptoms and not patch.silent}
    assert {path.stem for path in LOGS} == raising - NEVER_MET


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_root_cause_of_a_real_log_leads_to_its_patch_and_to_no_other(path: Path) -> None:
    reader = LogReader()
    reader.feed(path.read_bytes())
    findings = reader.finish()
    assert findings.root_cause is not None
    cause = findings.tracebacks[findings.root_cause]
    found = match(cause.exception_type, cause.message, cause.frames)
    assert [one.patch for one in found] == [path.stem]
    assert found[0].why


@pytest.mark.parametrize("patch", ["embed-input-ids", "two-phase-execution"])
def test_the_driver_s_wrapper_of_a_worker_s_error_leads_to_the_patch_too(patch: str) -> None:
    reader = LogReader()
    reader.feed((Path(__file__).parent / "failures" / f"{patch}.log").read_bytes())
    wrappers = [t for t in reader.finish().tracebacks if t.wrapper]
    assert [match(t.exception_type, t.message, t.frames)[0].patch for t in wrappers] == [patch]


def test_an_assertion_elsewhere_is_not_taken_for_the_block_hashes() -> None:
    frames = [Frame("a.py", "schedule", ""), Frame("a.py", "allocate_slots", ""), Frame("b.py", "free", "assert x")]
    assert match("AssertionError", "", frames) == ()


def test_a_missing_driver_is_only_ours_below_the_call_that_asks_for_memory() -> None:
    message = "Found no NVIDIA driver on your system."
    asking = [Frame("memory.py", "mem_get_info", ""), Frame("__init__.py", "_lazy_init", "")]
    assert [m.patch for m in match("RuntimeError", message, asking)] == ["cuda-memory-info"]
    assert match("RuntimeError", message, [Frame("train.py", "main", ""), asking[1]]) == ()


def test_another_exception_class_with_the_same_message_does_not_match() -> None:
    message = "get_kv_cache_config_from_groups() got an unexpected keyword argument 'kv_cache_specs'"
    assert match("TypeError", message, ())[0].patch == "kv-cache-specs"
    assert match("ValueError", message, ()) == ()


def test_a_prompt_cut_at_the_step_limit_leads_to_chunked_prefill() -> None:
    message = "vLLM ran 192 of the 500 tokens of request req_1_16 in one step, so its hidden states are not whole"
    assert [m.patch for m in match("RuntimeError", message, ())] == ["chunked-prefill"]


def test_the_catalogue_finds_by_id_and_knows_no_strangers() -> None:
    assert all(get(patch.id) is patch for patch in PATCHES)
    assert get("no-such-patch") is None


FRAMES = (Frame("core.py", "schedule", ""), Frame("pool.py", "cache_full_blocks", "assert len(hashes) >= blocks"))
BROAD = Symptom("AssertionError", innermost="cache_full_blocks")
EXACT = Symptom("AssertionError", source="len.hashes", innermost="cache_full_blocks", functions=("schedule",))


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three entries: `exact` fits the frames best, `broad` fits them, `told` fits a message."""
    base = PATCHES[0]
    symptoms = {"broad": BROAD, "exact": EXACT, "told": Symptom("KeyError", message="^no such layer")}
    patches = tuple(replace(base, id=name, symptoms=(symptom,)) for name, symptom in symptoms.items())
    monkeypatch.setattr("compat.matcher.PATCHES", patches)


@pytest.mark.usefixtures("catalogue")
def test_a_text_tells_more_than_the_names_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    by_text = Symptom("AssertionError", source="len.hashes")
    by_names = Symptom("AssertionError", innermost="cache_full_blocks", functions=("schedule",))
    base = PATCHES[0]
    both = [replace(base, id="names", symptoms=(by_names,)), replace(base, id="text", symptoms=(by_text,))]
    monkeypatch.setattr("compat.matcher.PATCHES", tuple(both))
    assert [found.patch for found in match("AssertionError", "", FRAMES)] == ["text", "names"]


@pytest.mark.usefixtures("catalogue")
def test_the_reason_tells_all_that_fits_over_a_patch_s_symptoms(monkeypatch: pytest.MonkeyPatch) -> None:
    two = (BROAD, Symptom("AssertionError", source="len.hashes"))
    monkeypatch.setattr("compat.matcher.PATCHES", (replace(PATCHES[0], id="both", symptoms=two),))
    (found,) = match("AssertionError", "", FRAMES)
    assert found.why == "exception type and innermost function match; source line matches"


def order(**states: State) -> list[str]:
    statuses = [PatchStatus(name, "", state, "as installed") for name, state in states.items()]
    return [found.patch for found in match("AssertionError", "", FRAMES, statuses)]


@pytest.mark.usefixtures("catalogue")
def test_the_most_particular_symptom_comes_first_while_nothing_is_known_of_the_environment() -> None:
    assert [found.patch for found in match("AssertionError", "", FRAMES)] == ["exact", "broad"]
    assert order(exact="off", broad="off") == ["exact", "broad"]


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize("in_force", ["off", "needed", "refused"])
@pytest.mark.parametrize("other", ["active", "not applicable"])
def test_a_patch_that_was_not_in_force_goes_before_one_that_was_or_is_for_other_versions(
    in_force: State, other: State
) -> None:
    assert order(exact=other, broad=in_force) == ["broad", "exact"]


@pytest.mark.usefixtures("catalogue")
def test_a_patch_that_is_off_goes_before_one_that_was_refused_and_an_active_one_before_a_foreign_one() -> None:
    assert order(exact="refused", broad="off") == ["broad", "exact"]
    assert order(exact="not applicable", broad="active") == ["broad", "exact"]


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize(
    ("state", "advice", "why"),
    [
        ("off", False, "versions match; patch is off"),
        ("needed", False, "versions match; patch was not in force, and will be at the next launch"),
        ("needed", True, "versions match; nothing mends it at run time: see its advice"),
        ("active", False, "versions match; but the patch is active, so this may be another failure"),
        ("refused", False, "but the patch is refused: as installed"),
        ("not applicable", False, "but it is not for this environment: as installed"),
    ],
)
def test_the_reason_is_in_words(state: State, advice: bool, why: str) -> None:
    status = PatchStatus("exact", "", state, "as installed", advice=advice)
    found = {m.patch: m for m in match("AssertionError", "", FRAMES, [status])}
    clues = "exception type, innermost function and calling functions match; source line matches"
    assert found["exact"].why == f"{clues}; {why}"
    assert found["exact"].state == state
    assert (found["broad"].why, found["broad"].state) == ("exception type and innermost function match", "")


WRAPPED = "Worker failed with error '{}', please check the stack trace above for the root cause"


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize(
    ("inner", "why"),
    [
        ("no such layer: 7", "the message that the driver wraps matches"),
        ("KeyError('no such layer: 7')", "the message that the driver wraps matches, and so does its type"),
        (
            "builtins.KeyError(\"no such layer: '7'\",)",
            "the message that the driver wraps matches, and so does its type",
        ),
    ],
)
def test_of_a_worker_s_error_that_only_its_wrapper_tells_the_inner_text_counts(inner: str, why: str) -> None:
    driver = [Frame("executor.py", "get_response", "raise RuntimeError(")]
    for message in (WRAPPED.format(inner), WRAPPED.format(inner).split(", please")[0]):
        assert [(m.patch, m.why) for m in match("RuntimeError", message, driver)] == [("told", why)]
    assert match("ValueError", WRAPPED.format(inner), driver) == ()


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize("inner", ["", "ValueError('no such layer: 7')", "AssertionError()", "another text"])
def test_a_wrapped_text_that_tells_nothing_known_matches_nothing(inner: str) -> None:
    assert match("RuntimeError", WRAPPED.format(inner), FRAMES) == ()
