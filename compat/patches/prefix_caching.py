"""vLLM turns prefix caching on by default; extraction must run every token of every prompt."""

from __future__ import annotations

import ast
from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Symptom
from compat.replace import GENERATOR, default_arguments, generator_module

ID = "prefix-caching"
REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator._create_vllm_config"
WRITTEN_FOR = ("640404a3dbe3c6d1f112fca1c88cf3e47634b12c4daf33d622f7b92b0cf35ec6",)


def probe(site: Path) -> Probe:
    config = source.find(site, "vllm.config.cache.CacheConfig")
    caller = source.find(site, REPLACES)
    default = source.field(config, "enable_prefix_caching")
    if default is None or default.value is None or ast.unparse(default.value) != "True":
        return Probe(False, f"{config.place}: prefix caching is not on by default")
    for call in source.calls(caller, "CacheConfig"):
        if "enable_prefix_caching" not in source.keywords(call):
            return Probe(
                True, f"{config.at(default)} turns prefix caching on by default, and {caller.at(call)} leaves it so"
            )
    return Probe(False, f"{caller.place} sets enable_prefix_caching itself")


def apply() -> None:
    module = generator_module()
    default_arguments(module, "CacheConfig", lambda given: {"enable_prefix_caching": False})


PATCH = Patch(
    id=ID,
    drift="D07",
    title="Prefix caching is on by default",
    speculators="==0.3.0",
    vllm=">=0.12.0",
    symptoms=(
        Symptom(
            "AssertionError",
            source=r"assert len\((request\.)?block_hashes\) >= num_full_blocks",
            innermost="cache_full_blocks",
        ),
        Symptom("AssertionError", innermost="cache_full_blocks", functions=("schedule", "allocate_slots")),
    ),
    cause="vLLM 0.12.0 flipped the default of CacheConfig.enable_prefix_caching to True. The generator's requests have "
    "no block hashes, so the first prompt of 16 tokens or more fails an assertion.",
    mend="CacheConfig(enable_prefix_caching=False): every token is computed, so every token is captured.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    risk="None for extraction. Giving the requests a block hasher would silence the assertion too, but then shared "
    "prefixes come from the cache, are never captured, and shift the rows of other samples (D16).",
    references=("vllm-project/speculators#279", "vllm-project/speculators#283", "vllm-project/speculators#225"),
    written_for=WRITTEN_FOR,
)
