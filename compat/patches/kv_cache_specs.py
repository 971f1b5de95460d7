"""vLLM's get_kv_cache_config_from_groups lost a parameter that speculators 0.3.0 still passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Symptom
from compat.replace import GENERATOR, generator_module

ID = "kv-cache-specs"
CALLEE = "vllm.v1.core.kv_cache_utils.get_kv_cache_config_from_groups"
REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator.__init__"
WRITTEN_FOR = ("645fe509445cbb697326d36fe9fa17afcda7018e96de1ca211a7397c42b6126f",)


def probe(site: Path) -> Probe:
    callee = source.find(site, CALLEE)
    caller = source.find(site, REPLACES)
    if "kv_cache_specs" in source.parameters(callee):
        return Probe(False, f"{callee.place} still takes kv_cache_specs")
    for call in source.calls(caller, "get_kv_cache_config_from_groups"):
        if "kv_cache_specs" in source.keywords(call):
            return Probe(True, f"{callee.place} has no parameter kv_cache_specs, which {caller.at(call)} passes")
    return Probe(False, f"{caller.place} does not pass kv_cache_specs")


def apply() -> None:
    module = generator_module()
    wrapped = module.get_kv_cache_config_from_groups

    def get_kv_cache_config_from_groups(*, kv_cache_specs: object = None, **given: Any) -> Any:
        return wrapped(**given)

    module.get_kv_cache_config_from_groups = get_kv_cache_config_from_groups


PATCH = Patch(
    id=ID,
    drift="D02",
    title="get_kv_cache_config_from_groups has no kv_cache_specs any more",
    speculators="==0.3.0",
    vllm=">=0.12.0",
    symptoms=(Symptom("TypeError", message=r"unexpected keyword argument 'kv_cache_specs'"),),
    cause="vLLM 0.12.0 dropped the parameter kv_cache_specs; the groups hold the specs already.",
    mend="Drops the argument on the way.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    references=("vllm-project/speculators#225",),
    written_for=WRITTEN_FOR,
)
