"""Stage `vocab`: which tokens the draft model can say, and the samples in the form that the trainer reads.

speculators' own mapping, over the tokens that the assistant says. It needs no hidden states, so that another draft
vocabulary is a relaunch of this stage, and nothing is extracted again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

from pipeline import dataset, products, settings, training_data, verified, vocabulary
from pipeline.dataset import Sample
from pipeline.draft import target_folder
from pipeline.report import StageError, artifact, metric, note, progress
from pipeline.settings import Settings
from pipeline.vocabulary import Vocabulary

log = logging.getLogger("pipeline.vocab")


def main() -> None:
    wanted = settings.of_attempt()
    samples = dataset.read(products.dataset())
    data = verified.require(samples)
    target = products.target(wanted)
    total = target_folder.vocabulary(target)
    size = choose_size(wanted, total, str(target))
    rows = products.training_data()
    if training_data.is_of(rows, data):
        note(f"The samples in {rows} are of this data; keeping them.")
    else:
        progress("writing the samples for the trainer", 0, len(samples), "samples")
        training_data.write(samples, rows, data)
        progress("writing the samples for the trainer", len(samples), len(samples), "samples")
    found = vocabulary.read(products.vocabulary())
    if found and (found.data, found.draft_vocabulary, found.target_vocabulary) == (data, size, total):
        note(f"The draft vocabulary in {products.vocabulary()} is of this data and size; keeping it.")
    else:
        found = _make(samples, data, size, total)
    _tell(found)


def choose_size(wanted: Settings, total: int, place: str) -> int:
    """Tokens of the draft vocabulary for a target of `total`. Raises StageError when more than that are asked for."""
    if wanted.draft_vocabulary is None:
        return min(settings.DRAFT_VOCABULARY, total)
    if wanted.draft_vocabulary > total:
        raise StageError(
            f"run.draft_vocabulary is {wanted.draft_vocabulary}, and {place} has {total} tokens; lower it to {total} "
            "at most, or leave it out."
        )
    return wanted.draft_vocabulary


def count(samples: Iterable[Sample]) -> Counter[int]:
    """Token id → how often the assistant says it."""
    found: Counter[int] = Counter()
    for sample in samples:
        found.update(token for token, said in zip(sample.token_ids, sample.loss_mask, strict=True) if said)
    return found


def _make(samples: list[Sample], data: str, size: int, total: int) -> Vocabulary:
    from speculators.train.vocab_mapping import build_vocab_mappings_from_distribution

    said = count(samples)
    beyond = max(said, default=0)
    if beyond >= total:
        raise StageError(
            f"{products.dataset()} has the token id {beyond}, and the target has {total} tokens; run prepare again "
            "with the target's own tokenizer."
        )
    d2t, t2d = build_vocab_mappings_from_distribution(dict(said), size, total)
    inside = sum(times for token, times in said.items() if t2d[token])
    return vocabulary.write(
        products.vocabulary(),
        d2t.numpy(),
        t2d.numpy(),
        data=data,
        coverage=inside / said.total(),
        tokens=said.total(),
        missing=sum(1 for token in said if not t2d[token]),
    )


def _tell(found: Vocabulary) -> None:
    metric("draft_vocabulary", found.draft_vocabulary)
    metric("coverage", round(found.coverage, 6))
    artifact(products.vocabulary() / vocabulary.ABOUT)
    left = f"; {found.missing} tokens that it says are not among them" if found.missing else ""
    note(
        f"A draft vocabulary of {found.draft_vocabulary} of {found.target_vocabulary} tokens covers "
        f"{found.coverage:.2%} of the {found.tokens} tokens of the assistant{left}."
    )
