"""vLLM turns prefix caching on by default; extraction must run every token of every prompt."""

from __future__ import annotations

import ast
from pathlib import Path

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom
from compat.replace import GENERATOR, check_argument, default_arguments, generator_module

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
    default_arguments(generator_module(), "CacheConfig", enable_prefix_caching=False)


def verify() -> str:
    return check_argument(generator_module(), "CacheConfig", "enable_prefix_caching")


PATCH = Patch(
    id="prefix-caching",
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
    verify=verify,
    risk="None for extraction, which computes every prompt once.",
    story="The account says that vLLM 0.16 wants block hashes of every request, and gives it a block hasher. That is "
    "wrong: without prefix caching no hash is ever asked for (measured), and both the assertion and Request's argument "
    "block_hasher are in 0.11.0 already. The hasher silences the assertion and corrupts the data: prefix-cache-rows.",
    references=("vllm-project/speculators#279", "vllm-project/speculators#283", "vllm-project/speculators#225"),
    written_for=WRITTEN_FOR,
    signs=(Sign("changed-default", "CacheConfig", "enable_prefix_caching"),),
)
