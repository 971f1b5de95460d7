"""A prompt's prefix that comes from the cache is not computed, so it is not captured, and nothing says so."""

from __future__ import annotations

import ast
from pathlib import Path

from compat import source
from compat.patch import Patch, Probe
from compat.replace import GENERATOR

CONFIG = f"{GENERATOR}.VllmHiddenStatesGenerator._create_vllm_config"
CALLER = f"{GENERATOR}.VllmHiddenStatesGenerator.generate"


def probe(site: Path) -> Probe:
    default = source.field(source.find(site, "vllm.config.cache.CacheConfig"), "enable_prefix_caching")
    config = source.find(site, CONFIG)
    caller = source.find(site, CALLER)
    calls = source.calls(config, "CacheConfig")
    if any("enable_prefix_caching" in source.keywords(call) for call in calls):
        return Probe(False, f"{config.place} sets enable_prefix_caching itself")
    if default is None or default.value is None or ast.unparse(default.value) != "True":
        return Probe(False, "prefix caching is not on by default")
    for call in source.calls(caller, "Request"):
        if "block_hasher" in source.keywords(call):
            return Probe(True, f"{caller.at(call)} gives requests block hashes while prefix caching is on")
    return Probe(
        False, f"{caller.place} gives requests no block hashes: with prefix caching on it fails before it corrupts"
    )


PATCH = Patch(
    id="prefix-cache-rows",
    drift="D16",
    title="Prefixes from the cache are not captured",
    speculators="==0.3.0",
    vllm=">=0.12.0",
    cause="With prefix caching on and block hashes given, vLLM takes a prefix of 16 tokens or more that it has seen "
    "from the cache. Those tokens are not run, so their states are not captured, and the rows of every later sample "
    "shift: the same batch twice gave (40, 25, 130) rows, then (19, 0, 0) (measured on vLLM 0.16.0).",
    mend="Take the block hasher out of the edited speculators; the patch prefix-caching turns prefix caching off.",
    probe=probe,
    replaces=CALLER,
    silent=True,
    gate="attribution",
    story="This is what the account's own mend (Request's block_hasher, named there among Request's arguments) leads "
    "to: ten samples extracted without an error prove nothing. Upstream went the same way and had to turn back (#279, "
    "#283).",
    references=("vllm-project/speculators#279", "vllm-project/speculators#283", "vllm-project/vllm#44485"),
)
