"""A small part of the data extracted again, alone and in a batch, by the engine that made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import states
from pipeline.dataset import Sample
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
    """States of each sample of the portion when it was extracted by itself, by index."""
    next_tokens: tuple[NextTokens, ...]


def stored(folder: Path, samples: Sequence[Sample]) -> dict[int, Any]:
    """Index → states [R, L, H] as they lie on the disk."""
    found = {}
    for sample in samples:
        with states.opened(folder / f"hs_{sample.index}.safetensors") as file:
            found[sample.index] = file.all()
    return found


class Repetition:
    """One walk through a portion of the data with an engine."""

    def __init__(
        self,
        engine: Engine,
        portion: Portion,
        before: Mapping[int, Any],
        least: float,
        tell: Callable[[str], None],
    ) -> None:
        """`before` are the stored states of the portion's samples, by index, which may differ by `least`."""
        self._least = least
        self._engine = engine
        self._tell = tell
        self._samples, self._made, self._fillers = portion.samples, portion.made, portion.fillers
        self._before = before
        self._alone: dict[Prompt, Any] = {}
        """States [R, L, H] of each prompt when it was first extracted by itself."""

    def run(self, extracted_with: Callable[[Sample], Mapping[int, Any]], samples: Sequence[Sample]) -> Repeated:
        """`extracted_with` gives the stored states of all samples that were one batch with this one, `samples` are
        all of the data: both are only needed where something is wrong."""
        prompts = [*(sample.token_ids for sample in self._samples), *self._made]
        names = [f"sample {sample.index}" for sample in self._samples]
        names += [f"made prompt {k}" for k in range(len(self._made))]
        again = [self._by_itself(prompt) for prompt in prompts]
        self._tell("extracting them in a batch")
        count, fillers = len(self._samples), len(self._fillers)
        order = [*prompts[:count], *self._fillers, *prompts[count:]]
        batched = self._engine.captured(order)
        kept = [self._before.get(sample.index) for sample in self._samples] + [None] * len(self._made)
        # A prompt by itself is the measure, unless a part of it was not computed: then what is stored must do.
        true = [own if len(own) == len(p) else old for p, own, old in zip(prompts, again, kept, strict=True)]
        reports = [
            *_compared("stored", true, kept, names, self._least),
            *_compared(
                "extracted alone", true, [None if f is t else f for f, t in zip(again, true, strict=True)], names
            ),
        ]
        if reports and not reports[0].passed:
            reports[0] = self._first_of_its_batch(reports[0], true, kept, extracted_with, samples)
        together = _compared("in a batch", true, [*batched[:count], *batched[count + fillers :]], names)
        if not all(report.passed for report in together) or any(
            len(found) != len(prompt) for found, prompt in zip(batched, order, strict=True)
        ):
            fill = [f"filling prompt {k}" for k in range(fillers)]
            together = [self._whole_batch(order, batched, [*names[:count], *fill, *names[count:]])]
        reports += together
        lost = [n for n, t, p in zip(names, true, prompts, strict=True) if t is None or len(t) != len(p)]
        if lost and all(report.passed for report in reports):
            told = (
                f"{len(lost)} of {len(prompts)} prompts lack rows when they are extracted alone, the first {lost[0]}."
            )
            reports.append(failed(attribution.GATE, "rows missing", told))
        if fillers and all(report.passed for report in reports):
            told = (
                f"A batch of {len(order)} prompts, {sum(map(len, order))} tokens, more than one step takes, is whole."
            )
            reports.append(passed(attribution.GATE, told))
        whole = {sample.index: self._alone[sample.token_ids] for sample in self._samples}
        return Repeated(tuple(reports), whole, tuple(self._next_tokens()))

    def _by_itself(self, prompt: Prompt) -> Any:
        if prompt not in self._alone:
            self._tell(f"extracting prompts alone ({len(self._alone) + 1})")
            self._alone[prompt] = self._engine.captured([prompt])[0]
            return self._alone[prompt]
        return self._engine.captured([prompt])[0]  # a repeated prompt: a prefix cache has it now

    def _first_of_its_batch(
        self,
        report: GateReport,
        true: Sequence[Any],
        kept: Sequence[Any],
        extracted_with: Callable[[Sample], Mapping[int, Any]],
        samples: Sequence[Sample],
    ) -> GateReport:
        """Lost rows shift those of the samples behind: the first of the batch that is wrong shows the cause."""
        order = [sample.index for sample in samples]
        wrong = [
            sample
            for sample, own, found in zip(self._samples, true, kept, strict=False)
            if own is not None and not attribution.check([own], [found], (), self._least).passed
        ]
        states_of = extracted_with(min(wrong, key=lambda sample: order.index(sample.index)))
        batch = [sample for sample in samples if sample.index in states_of]
        alone = [self._alone.get(s.token_ids) for s in batch]
        own = [
            found if found is not None else self._by_itself(s.token_ids) for s, found in zip(batch, alone, strict=True)
        ]
        usable = [k for k, s in enumerate(batch) if len(own[k]) == len(s.token_ids)]
        names = [f"sample {batch[k].index}" for k in usable]
        better = attribution.check(
            [own[k] for k in usable], [states_of[batch[k].index] for k in usable], names, self._least
        )
        return report if better.passed else _named("stored", better)

    def _whole_batch(self, order: Sequence[Prompt], batched: Sequence[Any], names: Sequence[str]) -> GateReport:
        """What happened to a batch that is known to be wrong: each of its prompts alone, to see which was first."""
        alone = [self._alone[prompt] if prompt in self._alone else self._by_itself(prompt) for prompt in order]
        stored_states = {sample.token_ids: self._before[sample.index] for sample in self._samples}
        true = [
            own if len(own) == len(prompt) else stored_states.get(prompt)
            for own, prompt in zip(alone, order, strict=True)
        ]
        report = next(iter(_compared("in a batch", true, batched, names)), None)
        short = [k for k, prompt in enumerate(order) if len(prompt) != len(batched[k])]
        if report is None or (report.passed and short):
            told = f"in a batch: {len(short)} of {len(order)} prompts have not one row for each token"
            return failed(attribution.GATE, "rows missing", f"{told}, the first is {names[short[0]]}.")
        return report

    def _next_tokens(self) -> list[NextTokens]:
        self._tell("asking the engine for its next tokens")
        found = []
        for sample in sorted(self._samples, key=lambda sample: -len(sample.token_ids))[:ASKED]:
            size = len(sample.token_ids)
            first = min(FIRST, max(0, size - 1 - POSITIONS))
            count = min(POSITIONS, size - 1 - first)
            if count > 0:
                told = self._engine.next_tokens(sample.token_ids, first, count)
                found.append(NextTokens(sample.index, first, told))
        return found


def _compared(
    how: str, true: Sequence[Any], found: Sequence[Any], names: Sequence[str], least: float = 0.0
) -> list[GateReport]:
    """One report, or none where nothing can be compared."""
    usable = [k for k in range(len(true)) if true[k] is not None and len(true[k]) and found[k] is not None]
    if not usable:
        return []
    return [
        _named(
            how,
            attribution.check([true[k] for k in usable], [found[k] for k in usable], [names[k] for k in usable], least),
        )
    ]


def _named(how: str, report: GateReport) -> GateReport:
    return GateReport(report.gate, report.passed, report.fault, f"{how}: {report.sentence}")
