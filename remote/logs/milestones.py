"""One-off figures that the engine reports: how long the weights took, what the KV cache holds."""

from __future__ import annotations

import re
from typing import NamedTuple

from remote.logs.phases import LINE_TOKENS

TOKENS = (
    b" took ",
    b" takes ",
    b"Graph capturing finished",
    b"KV cache memory: ",
    b"KV cache size: ",
    b"mem usage=",
    b"KV Cache is allocated",
    b"Deserialized ",
    b"transform time: ",
    b"Maximum concurrency",
    b"GPU blocks: ",
    b"cuda blocks: ",
    *LINE_TOKENS,
)
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_MILESTONES = (
    # A word that the line must have, its form, and what its numbers are.
    ("Loading weights took", re.compile(rf"Loading weights took ({_NUMBER}) seconds"), (("load_weights_done", "s"),)),
    (
        "Model loading took",
        re.compile(rf"Model loading took ({_NUMBER}) (?:GiB|GB)(?: memory)? and ({_NUMBER}) seconds"),
        (("model_loaded", "GiB"), ("model_loaded", "s")),
    ),
    (
        "Dynamo bytecode transform time",
        re.compile(rf"Dynamo bytecode transform time: ({_NUMBER}) s"),
        (("dynamo_transform", "s"),),
    ),
    ("torch.compile t", re.compile(rf"torch\.compile t(?:akes|ook) ({_NUMBER}) s in total"), (("torch_compile", "s"),)),
    ("Memory profiling takes", re.compile(rf"Memory profiling takes ({_NUMBER}) seconds"), (("memory_profiled", "s"),)),
    (
        "Maximum concurrency for",
        re.compile(rf"Maximum concurrency for {_NUMBER} tokens per request: ({_NUMBER})x"),
        (("max_concurrency", "x"),),
    ),
    (" blocks: ", re.compile(rf"# (?:GPU|cuda) blocks: ({_NUMBER})"), (("kv_cache", "blocks"),)),
    (
        "Deserialized ",
        re.compile(rf"Deserialized ({_NUMBER}) ?(?:GB|GiB) in ({_NUMBER}) ?s"),
        (("tensorizer_deserialized", "GB"), ("tensorizer_deserialized", "s")),
    ),
    (
        "Available KV cache memory",
        re.compile(rf"Available KV cache memory: ({_NUMBER}) GiB"),
        (("kv_cache_memory", "GiB"),),
    ),
    ("KV cache size", re.compile(rf"KV cache size: ({_NUMBER}) tokens"), (("kv_cache", "tokens"),)),
    ("init engine", re.compile(rf"init engine .{{0,120}}took ({_NUMBER}) s"), (("engine_ready", "s"),)),
    (
        "Graph capturing finished",
        re.compile(rf"Graph capturing finished in ({_NUMBER}) secs, took ({_NUMBER}) GiB"),
        (("cudagraphs_captured", "s"), ("cudagraphs_captured", "GiB")),
    ),
    (
        "Graph capturing finished",
        re.compile(rf"Graph capturing finished in ({_NUMBER}) secs\.?$"),
        (("cudagraphs_captured", "s"),),
    ),
    (
        "Capture cuda graph end",
        re.compile(rf".{{0,80}}Capture cuda graph end\. Time elapsed: ({_NUMBER}) s\. mem usage=({_NUMBER}) GB"),
        (("cudagraphs_captured", "s"), ("cudagraphs_captured", "GB")),
    ),
    (
        "KV Cache is allocated",
        re.compile(rf"KV Cache is allocated\..{{0,200}}#tokens: ({_NUMBER})"),
        (("kv_cache", "tokens"),),
    ),
    (
        "Load weight end",
        re.compile(rf"Load weight end\..{{0,400}}mem usage=({_NUMBER}) GB"),
        (("sglang_load_weight", "GB"),),
    ),
)


class Figure(NamedTuple):
    kind: str
    unit: str
    start: int
    """Where its number stands in the text."""
    end: int


def figures_of(text: str) -> tuple[Figure, ...]:
    """The figures of one line. No pattern tells one digit from another: a line with other digits has them there too."""
    for word, pattern, names in _MILESTONES:
        if word in text and (match := pattern.search(text)):
            return tuple(Figure(kind, unit, *match.span(place)) for place, (kind, unit) in enumerate(names, 1))
    return ()


def number(text: str) -> float:
    return float(text.replace(",", ""))
