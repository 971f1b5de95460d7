"""Each patch is needed: switched off alone, extraction fails in the way that its symptoms describe."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_run import Run

from compat.catalogue import PATCHES
from compat.matcher import match
from remote.logs.findings import Frame

pytestmark = pytest.mark.engine

FAILURES = {
    # patch switched off: (exception, innermost function)
    "cuda-memory-info": ("RuntimeError", "_lazy_init"),
    "encoder-decoder-flag": ("ValidationError", "__init__"),
    "kv-cache-specs": ("TypeError", "__init__"),
    "scheduler-block-size": ("TypeError", "__init__"),
    "embed-input-ids": ("RuntimeError", "get_response"),
    "prefix-caching": ("AssertionError", "cache_full_blocks"),
    "reply-rank": ("RuntimeError", "generate"),
    "two-phase-execution": ("RuntimeError", "get_response"),
    "chunked-prefill": ("RuntimeError", "order"),
}


@pytest.fixture(scope="module")
def cases(run: Run) -> dict[str, dict[str, Any]]:
    # cuda-memory-info first: its patch of torch lasts as long as the process.
    output = run.script("failing.py", str(run.products / "target"), *FAILURES)
    lines = [json.loads(line[5:]) for line in output.splitlines() if line.startswith("CASE ")]
    return {line["patch"]: line for line in lines}


def test_every_patch_but_those_that_only_a_gate_sees_has_a_failure_of_its_own() -> None:
    assert {patch.id for patch in PATCHES} == {*FAILURES, "row-attribution", "cpu-rotary"}


@pytest.mark.parametrize("patch", FAILURES)
def test_switched_off_alone_it_fails_as_its_symptoms_say(patch: str, cases: dict[str, dict[str, Any]]) -> None:
    case = cases[patch]
    frames = [Frame(**frame) for frame in case["frames"]]
    assert (str(case["type"]).rsplit(".", 1)[-1], frames[-1].function) == FAILURES[patch]
    assert match(case["type"], case["message"], frames)[0].patch == patch
