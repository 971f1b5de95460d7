"""A small part of the data extracted again, alone and in a batch, by the engine that made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import states
from pipeline.engine.backend import Engine
from pipeline.gates import attribution
from pipeline.gates.report import GateReport, failed, passed
from pipeline.verifying.portion import Portion, Prompt

POSITIONS = 32
"""Of a sample, behind which the engine is asked what follows."""
FIRST = 8
"""The first of them, where the sample is long enough: the very first tokens of a text say little."""
ASKED = 2
"""Samples of which the engine is asked."""


@dataclass(frozen=True)
class NextTokens:
    """What the engine says that follows, at positions of a sample."""

    sample: int
    first: int
    log_probabilities: Any
    """[P, V]; -inf for tokens that the engine does not tell of."""


@dataclass(frozen=True)
class Repeated:
    reports: tuple[GateReport, ...]
    alone: Mapping[int, Any]
    """States [S, L, H] of each sample of the portion by itself, where it has a row for each token."""
    next_tokens: tuple[NextTokens, ...]


def stored(folder: Path, portion: Portion) -> dict[int, Any]:
    """Index → the states of each sample of the portion, as they lie on the disk."""
    found = {}
    for sample in portion.samples:
        with states.opened(folder / f"hs_{sample.index}.safetensors") as file:
            found[sample.index] = file.all()
    return found


def repeat(engine: Engine, portion: Portion, before: Mapping[int, Any], tell: Callable[[str], None]) -> Repeated:
    """`before` are the stored states of the portion's samples, by index."""
    prompts = portion.compared
    alone = []
    for number, prompt in enumerate(prompts):
        tell(f"extracting {number + 1} of {len(prompts)} prompts alone")
        alone += engine.captured([prompt])
    tell("extracting them in a batch")
    count = len(portion.samples)
    order = [*prompts[:count], *portion.fillers, *prompts[count:]]
    batched = engine.captured(order)
    reports = _compare(engine, portion, before, alone, order, batched)
    tell("asking the engine for its next tokens")
    asked = [_next_tokens(engine, sample.index, sample.token_ids) for sample in _longest(portion)]
    whole = {
        sample.index: found
        for sample, found in zip(portion.samples, alone, strict=False)
        if len(found) == len(sample.token_ids)
    }
    return Repeated(tuple(reports), whole, tuple(one for one in asked if one is not None))


def _compare(
    engine: Engine,
    portion: Portion,
    before: Mapping[int, Any],
    alone: Sequence[Any],
    order: Sequence[Prompt],
    batched: Sequence[Any],
) -> list[GateReport]:
    prompts = portion.compared
    count, fillers = len(portion.samples), len(portion.fillers)
    old = [before.get(sample.index) for sample in portion.samples] + [None] * len(portion.made)
    # A prompt by itself is the measure, unless a part of it was not computed: then what is stored must do.
    true = [own if len(own) == len(p) else kept for p, own, kept in zip(prompts, alone, old, strict=True)]
    told = {
        "stored": [(true[k], found) for k, found in enumerate(old) if found is not None],
        "extracted alone": [(own, found) for own, found in zip(true, alone, strict=True) if found is not own],
        "in a batch": [
            (own, found) for own, found in zip(true, [*batched[:count], *batched[count + fillers :]], strict=True)
        ],
    }
    reports = []
    for how, pairs in told.items():
        usable = [(own, found) for own, found in pairs if own is not None and len(own)]
        if usable:
            report = attribution.check([own for own, _ in usable], [found for _, found in usable])
            reports.append(GateReport(report.gate, report.passed, report.fault, f"{how}: {report.sentence}"))
    short = [k for k, (prompt, found) in enumerate(zip(order, batched, strict=True)) if len(prompt) != len(found)]
    if short or not all(report.passed for report in reports[-1:]):
        reports.append(_whole_batch(engine, order, batched, short))
    missing = sum(own is None or len(own) != len(p) for p, own in zip(prompts, true, strict=True))
    if missing and all(report.passed for report in reports):
        reports.append(
            failed(attribution.GATE, "rows missing", f"{missing} of {len(prompts)} prompts alone lack rows.")
        )
    if portion.fillers and all(report.passed for report in reports):
        tokens = sum(map(len, order))
        reports.append(
            passed(
                attribution.GATE,
                f"A batch of {len(order)} prompts, {tokens} tokens, more than one step takes, is whole.",
            )
        )
    return reports


def _whole_batch(engine: Engine, order: Sequence[Prompt], batched: Sequence[Any], short: Sequence[int]) -> GateReport:
    """What happened to a batch that is known to be wrong: each of its prompts alone, to see which was first."""
    alone = [engine.captured([prompt])[0] for prompt in order]
    usable = [k for k, prompt in enumerate(order) if len(alone[k]) == len(prompt)]
    report = attribution.check([alone[k] for k in usable], [batched[k] for k in usable])
    if report.passed and short:
        prompt, rows = order[short[0]], len(batched[short[0]])
        return failed(
            attribution.GATE,
            "rows missing",
            f"{len(short)} of {len(order)} prompts of a batch lack rows, the first has {rows} of {len(prompt)}.",
        )
    return report


def _longest(portion: Portion) -> Sequence[Any]:
    return sorted(portion.samples, key=lambda sample: -len(sample.token_ids))[:ASKED]


def _next_tokens(engine: Engine, index: int, prompt: Prompt) -> NextTokens | None:
    """None for a sample of a single token, behind which nothing stands."""
    first = min(FIRST, max(0, len(prompt) - 1 - POSITIONS))
    count = min(POSITIONS, len(prompt) - 1 - first)
    if count < 1:
        return None
    return NextTokens(index, first, engine.next_tokens(prompt, first, count))
