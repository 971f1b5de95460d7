"""Before vLLM 0.12, get_kv_cache_config_from_groups wants the specs of the layers, which speculators 0.4 leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compat.patch import Patch, Probe, Sign, Symptom
from compat.probes import omits_required
from compat.replace import GENERATOR, check_wrap, generator_module, wrap

CALLEE = "vllm.v1.core.kv_cache_utils.get_kv_cache_config_from_groups"
REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator.__init__"
WRITTEN_FOR = ("631a3d8bcdbedaf0cac8c2dbc86a81d524a1bc8af6b370f1343b46aef0f271ba",)


def probe(site: Path) -> Probe:
    return omits_required(site, REPLACES, CALLEE, "kv_cache_specs")


def apply() -> None:
    wrap(generator_module(), "get_kv_cache_config_from_groups", _with_specs)


def verify() -> str:
    return check_wrap(generator_module(), "get_kv_cache_config_from_groups", __name__)


def _with_specs(old: Any) -> Any:
    def get_kv_cache_config_from_groups(**given: Any) -> Any:
        groups = given["kv_cache_groups"]
        specs = {layer: group.kv_cache_spec for group in groups for layer in group.layer_names}
        return old(**{"kv_cache_specs": specs, **given})

    return get_kv_cache_config_from_groups


PATCH = Patch(
    id="kv-cache-specs-required",
    drift="D02r",
    title="get_kv_cache_config_from_groups still wants kv_cache_specs",
    speculators="==0.4.*",
    vllm=">=0.11.0,<0.12.0",
    symptoms=(
        Symptom(
            "TypeError",
            message=r"get_kv_cache_config_from_groups\(\) missing 1 required positional argument: 'kv_cache_specs'",
        ),
    ),
    cause="speculators 0.4 was written for vLLM 0.12, which dropped the parameter; before, it was required.",
    mend="Passes the specs that the groups hold.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    risk="Read from the sources of vLLM 0.11.1 and 0.11.2, never run on them.",
    references=("vllm-project/speculators#225",),
    written_for=WRITTEN_FOR,
    signs=(Sign("missing-argument", "get_kv_cache_config_from_groups", "kv_cache_specs"),),
)
