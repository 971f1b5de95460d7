"""Stage `prepare`: conversations → token ids and loss mask."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pipeline import conversations, dataset, masking, origin, prepared, products, settings
from pipeline.chat.load import Chat, chat_of
from pipeline.conversations import Conversation
from pipeline.dataset import Sample
from pipeline.masking import MaskError
from pipeline.report import Pace, StageError, artifact, metric, note
from pipeline.settings import Settings

log = logging.getLogger("pipeline.prepare")
NAMED = 20
"""Rows with a fault that are named one by one."""
TOLD = 50
"""Conversations from one word of progress to the next."""


@dataclass
class Tally:
    """What became of the conversations."""

    rows: int = 0
    samples: int = 0
    tokens: int = 0
    trained: int = 0
    """Tokens under the mask."""
    longest: int = 0
    long: int = 0
    """Over run.max_length, cut or left out."""
    dropped: int = 0
    """Left out for it, or without a token of the assistant once cut."""
    faults: list[str] = field(default_factory=list)
    """The first NAMED of them."""
    faulty: int = 0


def main() -> None:
    wanted = settings.of_attempt()
    target = products.target(wanted)
    source = conversations.read(wanted.conversations)
    first = next(source)
    try:
        chat = chat_of(target)
    except StageError as error:
        raise StageError(f"Neither {first.place} nor any other conversation can become a sample. {error}") from error
    tally = Tally()
    about = {
        **prepared.of(wanted, target),
        "chat_format": chat.name,
        "marks": chat.marks.to_json() if chat.marks else None,
    }
    folder = products.dataset()
    vocabulary = int(origin.text_config(target).get("vocab_size") or 0)
    rows = itertools.chain([first], source)
    dataset.write(folder, _samples(rows, wanted, chat, tally, about, vocabulary), about)
    _tell(wanted, chat, tally)
    artifact(folder / dataset.SAMPLES)


def _samples(
    source: Iterable[Conversation],
    wanted: Settings,
    chat: Chat,
    tally: Tally,
    about: dict[str, object],
    vocabulary: int,
) -> Iterator[Sample]:
    """Raises StageError when a conversation cannot be used; all that were asked for are looked at first."""
    pace = Pace("tokenising conversations", wanted.samples, "samples")
    for conversation in source:
        if tally.samples + tally.faulty == wanted.samples:
            break
        tally.rows += 1
        sample = _sample(conversation, wanted, chat, tally, vocabulary)
        if sample is not None and not tally.faulty:
            yield sample
        if tally.rows % TOLD == 0:
            pace.step(tally.samples - pace.done)
    pace.step(tally.samples - pace.done)
    if tally.faulty:
        named = "them" if tally.faulty <= NAMED else f"the first {NAMED}"
        more = f" {tally.faulty - 1} more of {tally.rows} rows cannot be used; the log names {named}."
        raise StageError(tally.faults[0] + (more if tally.faulty > 1 else ""))
    if not tally.samples:
        raise StageError(
            f"No conversation of {wanted.conversations} fits run.max_length, {wanted.max_length} tokens, with a token "
            "of the assistant; raise run.max_length."
        )
    about.update(samples=tally.samples, long_samples=tally.long, dropped=tally.dropped)


def _sample(
    conversation: Conversation, wanted: Settings, chat: Chat, tally: Tally, vocabulary: int = 0
) -> Sample | None:
    """`vocabulary`: the target's tokens, 0 where its config does not say."""
    if conversation.fault:
        _fault(tally, f"{conversation.place} {conversation.fault}.")
        return None
    try:
        ids, mask = chat.encode(conversation.messages, conversation.tools)
    except MaskError as error:
        _fault(tally, f"{conversation.place} cannot be used: {error}.")
        return None
    if vocabulary and max(ids, default=0) >= vocabulary:
        _fault(
            tally,
            f"{conversation.place} cannot be used: it has the token {max(ids)}, and the target's vocabulary ends at "
            f"{vocabulary - 1}; copy the model's own tokenizer files into the target's folder.",
        )
        return None
    if len(ids) > wanted.max_length:
        tally.long += 1
        ids = ids[: wanted.max_length]
        # Found again: where the cut went through an opening, its rest is not there to tell it by.
        mask = masking.mask(ids, chat.marks) if chat.marks else mask[: wanted.max_length]
        if wanted.long == "drop" or not any(mask):
            tally.dropped += 1
            return None
    sample = Sample(tally.samples, tuple(ids), tuple(mask), conversation.place)
    tally.samples += 1
    tally.tokens += len(ids)
    tally.trained += sum(mask)
    tally.longest = max(tally.longest, len(ids))
    return sample


def _fault(tally: Tally, sentence: str) -> None:
    tally.faulty += 1
    if len(tally.faults) < NAMED:
        tally.faults.append(sentence)
        log.error("%s", sentence)


def _tell(wanted: Settings, chat: Chat, tally: Tally) -> None:
    if tally.samples < wanted.samples:
        note(f"{wanted.conversations} gave {tally.samples} samples; run.samples asks for {wanted.samples}.")
    if tally.long:
        longer = (
            f"{tally.long} of {tally.rows} conversations are longer than run.max_length, {wanted.max_length} tokens"
        )
        if wanted.long == "drop":
            note(f'{longer}, and were left out (stage.prepare.long = "drop").')
        else:
            none_left = (
                f"; {tally.dropped} had no token of the assistant left and were left out" if tally.dropped else ""
            )
            note(f"{longer}, and were cut to it{none_left}.")
    if chat.erased:
        note(
            f"{chat.erased} earlier turns have reasoning, which the chat template shows no model again: it is not "
            "trained on. The reasoning of the last turn is."
        )
    note(
        f"{tally.samples} samples, {tally.tokens} tokens, {tally.trained} of them trained on; chat format {chat.name}."
    )
    for name, value in (
        ("samples", tally.samples),
        ("tokens", tally.tokens),
        ("loss_tokens", tally.trained),
        ("longest", tally.longest),
        ("long", tally.long),
        ("dropped", tally.dropped),
    ):
        metric(name, value)
