"""The small part of the data that `verify` repeats, and prompts made of the data's own tokens to go with it.

Chosen by rule, so that the same data are always judged by the same part of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pipeline.dataset import Sample

SPREAD = 4
"""Samples from all over the data, beside the special ones."""
LOOKED_AT = 4096
"""Samples among which a shared prefix is looked for."""
PREFIX, TAILS = 64, (30, 45, 11)
"""Tokens of the made prompts' common prefix, and of what follows it: not multiples of a block of the KV cache."""
PER_STEP = 20
"""Fillers that fill one step of the engine; fewer than the slots that engines have."""
SUSPECTS = 4

Prompt = tuple[int, ...]


@dataclass(frozen=True)
class Portion:
    """What is extracted again."""

    samples: tuple[Sample, ...]
    """Extracted alone and in a batch, and compared with what is stored."""
    made: tuple[Prompt, ...]
    """With shared prefixes and repeated; extracted alone and in a batch."""
    fillers: tuple[Prompt, ...]
    """Long prompts that make the batch longer than one step of the engine takes."""


def choose(samples: Sequence[Sample], max_length: int, step_tokens: int, suspects: Collection[int] = ()) -> Portion:
    """`step_tokens` is the engine's limit of a step, 0 for none; `suspects` are samples whose files have a fault."""
    chosen = _samples(samples, suspects)
    stream = _stream(samples)
    made = _made(stream, max_length)
    return Portion(chosen, made, _fillers(stream, max_length, step_tokens, sum(len(s.token_ids) for s in chosen)))


def _samples(samples: Sequence[Sample], suspects: Collection[int]) -> tuple[Sample, ...]:
    wanted = [sample for sample in samples if sample.index in suspects][:SUSPECTS]
    by_length = sorted(samples, key=lambda sample: (len(sample.token_ids), sample.index))
    wanted += [by_length[0], by_length[-1], *_sharing(samples)]
    wanted += [samples[k * (len(samples) - 1) // max(1, SPREAD - 1)] for k in range(SPREAD)]
    return tuple({sample.index: sample for sample in wanted}.values())


def _sharing(samples: Sequence[Sample]) -> list[Sample]:
    """The two samples with the longest common prefix."""
    some = sorted(samples[:: max(1, len(samples) // LOOKED_AT)], key=lambda sample: sample.token_ids)
    pairs = [(_common(a.token_ids, b.token_ids), k) for k, (a, b) in enumerate(itertools.pairwise(some))]
    if not pairs:
        return []
    _, place = max(pairs, key=lambda pair: (pair[0], -pair[1]))
    return [some[place], some[place + 1]]


def _common(first: Prompt, second: Prompt) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(first), len(second)))


def _stream(samples: Sequence[Sample]) -> Prompt:
    """Tokens of the data from the end to the beginning: no made prompt begins as a sample does."""
    found: list[int] = []
    for sample in samples[:LOOKED_AT]:
        found += sample.token_ids[::-1]
        if len(found) > 1 << 16:
            break
    return tuple(found)


def _cut(stream: Prompt, start: int, length: int) -> Prompt:
    return tuple(stream[(start + k) % len(stream)] for k in range(length))


def _made(stream: Prompt, max_length: int) -> tuple[Prompt, ...]:
    size = min(PREFIX, max(1, max_length * 2 // 3))
    prefix = _cut(stream, 0, size)
    tails = [_cut(stream, size + 101 * k, length)[: max_length - size] for k, length in enumerate(TAILS)]
    with_tails = [prefix + tail for tail in tails]
    return (prefix, *with_tails, with_tails[0], prefix, _cut(stream, 7, 1))


def _fillers(stream: Prompt, max_length: int, step_tokens: int, before: int) -> tuple[Prompt, ...]:
    if not step_tokens:
        return ()
    size = min(max_length, max(PREFIX, step_tokens // PER_STEP))
    count = step_tokens // size + 2
    first = size
    if (step_tokens - before) % size == 0:
        first -= 1  # else a step could end where a prompt ends, and nothing would be cut
    return tuple(_cut(stream, 31 * k, first if k == 0 else size) for k in range(count))
