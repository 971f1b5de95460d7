"""What every entry of the catalogue has, and that the fixes of the account this project starts from are all in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from compat.catalogue import HARD, PATCHES, SILENT, get
from compat.patch import Patch

FILES = {path.stem for path in (Path(sys.modules["compat"].__path__[0]) / "patches").glob("[a-z]*.py")}
GATES = {
    "rows",
    "attribution",
    "finite",
    "final-norm",
    "aux-layers",
    "rotary",
    "loss-mask",
    "dataset",
    "engine-norms",
}
STORY = {
    "KV-cache configuration": "kv-cache-specs",
    "Scheduler's arguments": "scheduler-block-size",
    "Request's arguments": "prefix-cache-rows",
    "two-phase execution": "two-phase-execution",
    "worker's forward for DeepseekV2": "deepseek-layer-call",
    "embedding method": "embed-input-ids",
    "full tracebacks": "full-tracebacks",
    "collective_rpc indexing": "reply-rank",
}
MISTAKEN = ("prefix-caching", "prefix-cache-rows", "deepseek-layer-call")
"""Entries of which the account's own diagnosis does not hold."""


def test_every_file_is_an_entry_of_its_name() -> None:
    assert {patch.id.replace("-", "_") for patch in PATCHES} == FILES
    assert len(PATCHES) == len(FILES)


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.id)
def test_an_entry_tells_the_cause_the_mend_and_where_it_takes_hold(patch: Patch) -> None:
    for text in (patch.title, patch.cause, patch.mend):
        assert text
        assert "\n" not in text
    if patch.apply:
        assert patch.verify
        assert patch.after
        assert patch.replaces
        assert patch.written_for
        assert all(len(digest) == 64 for digest in patch.written_for)
    else:
        assert not patch.written_for
        assert not patch.after


def test_silent_entries_name_the_gate_that_catches_them_and_the_others_none() -> None:
    assert {patch.gate for patch in SILENT} <= GATES
    assert all(patch.silent for patch in SILENT)
    assert not any(patch.silent or patch.gate for patch in HARD)


@pytest.mark.parametrize(("fix", "patch"), STORY.items())
def test_each_fix_of_the_account_has_an_entry_that_names_it(fix: str, patch: str) -> None:
    entry = get(patch)
    assert entry
    assert fix in entry.story


@pytest.mark.parametrize("patch", MISTAKEN)
def test_an_entry_says_where_the_account_errs(patch: str) -> None:
    entry = get(patch)
    assert entry
    assert any(word in entry.story for word in ("wrong", "prove nothing"))
