"""Since vLLM 0.29 a KV cache cannot be planned before its layout has been agreed with the workers."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom
from compat.replace import GENERATOR

CALLEE = "vllm.v1.core.kv_cache_utils.get_kv_cache_config_from_groups"
CALLER = f"{GENERATOR}.VllmHiddenStatesGenerator.__init__"


def probe(site: Path) -> Probe:
    callee = source.find(site, CALLEE)
    caller = source.find(site, CALLER)
    if "get_resolved_kv_cache_layout" not in callee.text:
        return Probe(False, f"{callee.place} asks for no resolved layout")
    return Probe(True, f"{callee.place} wants a resolved KV cache layout, which {caller.place} never resolves")


PATCH = Patch(
    id="kv-cache-layout",
    drift="D13",
    title="The KV cache's layout is never resolved",
    speculators=">=0.3.0,<0.5.0",
    vllm=">=0.29.0",
    symptoms=(Symptom("ValueError", message=r"KV cache layout has not been resolved yet"),),
    cause="Since vLLM 0.29.0 the engine's core resolves a layout, tells the workers (set_kv_cache_layout), and only "
    "then plans the cache. The generator drives the workers itself and knows nothing of it.",
    mend="Use speculators 0.6 or later, which extracts through vLLM's own extract_hidden_states; or vLLM before 0.29.",
    probe=probe,
    replaces=CALLER,
    signs=(Sign("needed-step", "MultiprocExecutor", "set_kv_cache_layout"),),
)
