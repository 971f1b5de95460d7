"""Each hard entry of vLLM 0.16.0 is needed: switched off alone, extraction fails in the way that its symptoms say."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import patch_table
import pytest
from engine_run import Run

from compat.catalogue import get
from compat.matcher import match
from compat.patch import Switches
from compat.status import status
from remote.logs.findings import Frame

pytestmark = pytest.mark.engine

NO_GPU = "RuntimeError or AssertionError"
"""By the build of torch: with CUDA's libraries and no driver, or without them."""
FAILURES = {
    # patch switched off: (target, what the engine is asked for, exception, innermost function)
    "0.3.0": {
        # First: its patch of torch lasts as long as the process.
        "cuda-memory-info": ("tiny", "a prompt, and one more", NO_GPU, "_lazy_init"),
        "encoder-decoder-flag": ("tiny", "a prompt, and one more", "ValidationError", "__init__"),
        "full-tracebacks": ("tiny", "a worker's assertion", "RuntimeError", "get_response"),
        "eagle3-gate": ("tiny-deepseek-v3", "a prompt, and one more", "RuntimeError", "get_response"),
        "wrapped-language-model": ("tiny-kimi-k25", "a prompt, and one more", "RuntimeError", "get_response"),
        "kv-cache-specs": ("tiny", "a prompt, and one more", "TypeError", "__init__"),
        "scheduler-block-size": ("tiny", "a prompt, and one more", "TypeError", "__init__"),
        "embed-input-ids": ("tiny", "a prompt, and one more", "RuntimeError", "get_response"),
        "prefix-caching": ("tiny", "a prompt, and one more", "AssertionError", "cache_full_blocks"),
        "reply-rank": ("tiny", "a prompt, and one more", "RuntimeError", "generate"),
        "two-phase-execution": ("tiny", "a prompt, and one more", "RuntimeError", "get_response"),
        "chunked-prefill": ("tiny", "20 prompts of 500 tokens", "RuntimeError", "order"),
    },
    "0.4.0.1": {
        "cuda-memory-info": ("tiny", "a prompt, and one more", NO_GPU, "_lazy_init or __init__"),
        "request-starvation": ("tiny", "40 prompts", "RuntimeError", "generate"),
        "result-order": ("tiny", "12 prompts", "StageError", "generate"),
    },
}
UNFAILING = {
    "async-scheduling": "nothing is known to fail by it, and the CPU build has it off",
    "deepstack-inputs": "only a target of the Qwen3-VL type fails",
    "cpu-rotary": "silent: in test_engine_agreement.py",
    "row-attribution": "silent: a guard, in test_engine_agreement.py",
    "full-tracebacks": "as with 0.3.0: a matter of vLLM alone",
}
"""Patches that an environment needs and that no case above switches off, with the reason."""
CASES = [(speculators, patch) for speculators, patches in FAILURES.items() for patch in patches]


@pytest.fixture(scope="module")
def ended(release: Callable[[str], Run], target: Callable[[str], Path]) -> Callable[[str], dict[str, dict[str, Any]]]:
    """Of one release of speculators: the patch that was off → how extraction ended."""

    @cache
    def cases(speculators: str) -> dict[str, dict[str, Any]]:
        patches = FAILURES[speculators]
        asked = [{"patch": p, "target": str(target(kind)), "asks": asks} for p, (kind, asks, *_) in patches.items()]
        asked.append({"patch": "no patch", "target": str(target("tiny")), "asks": "a worker's assertion"})
        output = release(speculators).script("failing.py", json.dumps(asked))
        lines = [json.loads(line[5:]) for line in output.splitlines() if line.startswith("CASE ")]
        return {line["patch"]: line for line in lines}

    return cases


@pytest.mark.parametrize("speculators", FAILURES)
def test_every_needed_patch_is_switched_off_here_or_there_is_a_reason(
    speculators: str, release: Callable[[str], Run]
) -> None:
    rows = status(release(speculators).site, Switches(), {})
    needed = {row.id for row in rows if row.state == "needed" and not row.advice}
    assert needed - FAILURES[speculators].keys() <= UNFAILING.keys()
    assert FAILURES[speculators].keys() <= needed


@pytest.mark.parametrize(("speculators", "patch"), CASES)
def test_switched_off_alone_it_fails_as_its_symptoms_say(
    speculators: str, patch: str, ended: Callable[[str], dict[str, dict[str, Any]]], release: Callable[[str], Run]
) -> None:
    case = ended(speculators)[patch]
    frames = [Frame(**frame) for frame in case["frames"]]
    kind, _, exception, innermost = FAILURES[speculators][patch]
    raised, last = str(case["type"]).rsplit(".", 1)[-1], frames[-1]
    assert raised in exception.split(" or ")
    assert last.function in innermost.split(" or ")
    statuses = status(release(speculators).site, Switches(off=(patch,)), {})
    matched = [found.patch for found in match(case["type"], case["message"], frames, statuses)]
    entry = get(patch)
    assert entry
    row = {"speculators": speculators, "patch": patch, "drift": entry.drift, "target": kind, "matched": matched}
    row |= {"exception": raised, "message": case["message"], "source": last.source}
    patch_table.add(patch_table.FAILURES, [{**row, "at": f"{Path(last.file).name}:{last.line} in {last.function}"}])
    assert matched[:1] == [patch]


def test_with_full_tracebacks_on_a_worker_s_assertion_is_named(
    ended: Callable[[str], dict[str, dict[str, Any]]],
) -> None:
    cases = ended("0.3.0")
    assert "Worker failed with error ''" in cases["full-tracebacks"]["message"]
    named = cases["no patch"]["message"]
    assert "AssertionError at " in named
    assert "in _assert'" in named  # its code came by pickle: there is no source line
