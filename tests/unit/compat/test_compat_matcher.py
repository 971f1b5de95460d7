"""The matcher on excerpts of real logs, read by the log reader: `failures/PATCH.log` is what that one printed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from compat.catalogue import PATCHES, get
from compat.matcher import match
from remote.logs.reader import LogReader

LOGS = sorted((Path(__file__).parent / "failures").glob("*.log"))


@dataclass(frozen=True)
class Frame:
    file: str
    function: str
    source: str


def test_there_is_a_log_for_every_patch_that_ever_raises() -> None:
    assert {path.stem for path in LOGS} == {patch.id for patch in PATCHES if not patch.silent}


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
