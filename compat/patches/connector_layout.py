"""hs-connectors brings its own copy of vLLM's reader of the KV cache, which has one dimension more since vLLM 0.29."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom

COPY = "hs_connectors.mooncake_hidden_states_connector.extract_from_kv_cache"
ORIGINAL = "vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector.extract_from_kv_cache"


def probe(site: Path) -> Probe:
    original = source.find(site, ORIGINAL)
    try:
        copy = source.find(site, COPY)
    except source.SourceNotFound:
        return Probe(False, "hs-connectors is not installed, or has no copy of extract_from_kv_cache")
    if "kv_cache.shape[1]" in copy.text and "kv_cache.shape[2]" in original.text:
        return Probe(True, f"{copy.place} takes the block size from another dimension than {original.place}")
    return Probe(False, f"{copy.place} reads the cache as {original.place} does")


PATCH = Patch(
    id="connector-layout",
    drift="D25",
    title="hs-connectors reads the KV cache in its old layout",
    speculators=">=0.7.0",
    vllm=">=0.29.0",
    symptoms=(Symptom("IndexError", functions=("extract_from_kv_cache",)),),
    cause="The mooncake connector of hs-connectors 0.7 copied extract_from_kv_cache; vLLM 0.29.0 gave the cache's "
    "tensor one dimension more. The copy then takes wrong rows, or fails.",
    mend="Use a later hs-connectors, which calls vLLM's own function, or the file connector.",
    probe=probe,
    silent=True,
    gate="attribution",
    references=("vllm-project/speculators#1072",),
    signs=(Sign("stale-copy", "extract_from_kv_cache"),),
)
