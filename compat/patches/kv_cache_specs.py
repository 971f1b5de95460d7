"""vLLM's get_kv_cache_config_from_groups lost a parameter that speculators 0.3.0 still passes."""

from __future__ import annotations

from pathlib import Path

from compat.patch import Patch, Probe, Sign, Symptom
from compat.probes import passes_dropped
from compat.replace import GENERATOR, check_argument, drop_argument, generator_module

CALLEE = "vllm.v1.core.kv_cache_utils.get_kv_cache_config_from_groups"
REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator.__init__"
WRITTEN_FOR = ("645fe509445cbb697326d36fe9fa17afcda7018e96de1ca211a7397c42b6126f",)


def probe(site: Path) -> Probe:
    return passes_dropped(site, REPLACES, CALLEE, "kv_cache_specs")


def apply() -> None:
    drop_argument(generator_module(), "get_kv_cache_config_from_groups", "kv_cache_specs")


def verify() -> str:
    return check_argument(generator_module(), "get_kv_cache_config_from_groups", "kv_cache_specs")


PATCH = Patch(
    id="kv-cache-specs",
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
    verify=verify,
    story="Named there as the KV-cache configuration, and right.",
    references=("vllm-project/speculators#225",),
    written_for=WRITTEN_FOR,
    signs=(Sign("unknown-argument", "get_kv_cache_config_from_groups", "kv_cache_specs"),),
)
