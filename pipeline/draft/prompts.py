"""The sets of prompts that acceptance is measured on: named, always the same, and told by a digest.

Acceptance is a property of the prompts as much as of the draft model: what it was trained on it knows, the next
conversations of the same source it should, and everyday talk it may never have seen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import conversations
from pipeline.chat.load import Chat
from pipeline.conversations import Conversation, Message
from pipeline.dataset import Sample
from pipeline.draft.recipe import VALIDATED
from pipeline.draft_settings import BUILT_IN
from pipeline.masking import MaskError

HELD_OUT, TRAINED, EVERYDAY = BUILT_IN
_TALK = (
    "Write a short letter to a neighbour whose dog barks at night.",
    "What should I pack for three days of walking in the rain?",
    "My bread does not rise. Name three likely reasons.",
    "Explain to a child why the moon changes its shape.",
    "Which is heavier, a litre of oil or a litre of water, and why?",
    "Give me a plan for learning to swim within two months.",
    "Translate into French: The train leaves at seven, so we should hurry.",
    "A shirt costs 40 and is reduced by 15 per cent. What do I pay?",
    "Tell a story of four sentences about a lighthouse keeper.",
    "How do I get red wine out of a white table cloth?",
    "What did people use to write on before there was paper?",
    "Suggest names for a café that is open only at night.",
    "Why do cats purr, as far as anybody knows?",
    "Compare a bicycle and a bus for a way of five kilometres to work.",
    "How long do I boil an egg if the yolk is to stay soft?",
    "Describe the smell of a forest after rain in two sentences.",
)


@dataclass(frozen=True)
class PromptSet:
    """Prompts by their token ids, each up to where the assistant's first answer begins."""

    name: str
    prompts: tuple[tuple[int, ...], ...]
    source: str
    """Where they come from, in words."""
    too_long: int = 0
    """Prompts that were left out for their length."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.prompts).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "source": self.source,
            "prompts": len(self.prompts),
            "tokens": sum(map(len, self.prompts)),
            "too_long": self.too_long,
            "digest": self.digest,
        }


def ends(target: Path, marks: Mapping[str, Any] | None) -> frozenset[int]:
    """Token ids that end an answer: those of the target's own configs, and the chat format's end of a turn."""
    found = set(marks["ends"] if marks else ())
    for name in ("generation_config.json", "config.json"):
        path = target / name
        config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        for part in (config, config.get("text_config") or {}):
            ids = part.get("eos_token_id")
            found.update(ids if isinstance(ids, list) else [ids])
    return frozenset(i for i in found if isinstance(i, int))


def trained(samples: Sequence[Sample], size: int, longest: int) -> PromptSet:
    """Of samples of the run's own data set, spread over those that the trainer does not hold out: its last tenth."""
    learnt = samples[: _learnt(samples)]
    step = max(1, len(learnt) // size)
    picked = (_opening(sample.token_ids, sample.loss_mask) for sample in learnt[::step])
    return _set(TRAINED, picked, size, longest, "samples of this run's data set, which were trained on")


def held_out(source: str, samples: Sequence[Sample], chat: Chat, size: int, longest: int) -> PromptSet:
    """Of the conversations that come after the data set's last one; where none are left, of the data set's last tenth,
    which the trainer does not learn from either, but chooses the best draft model by."""
    told = f"the conversations of {source} that come after those of this run's data set"
    found = _set(HELD_OUT, _encoded(_after(source, samples[-1].place), chat), size, longest, told)
    if found.prompts:
        return found
    picked = (_opening(sample.token_ids, sample.loss_mask) for sample in samples[_learnt(samples) :])
    return _set(HELD_OUT, picked, size, longest, "samples of this run's data set that training held out")


def _learnt(samples: Sequence[Sample]) -> int:
    """How many of the samples, the first ones, the trainer learns from."""
    return max(1, int(len(samples) * (1 - VALIDATED)))


def everyday(chat: Chat, size: int, longest: int) -> PromptSet:
    asked: Iterable[Conversation] = (
        Conversation(f"everyday:{number}", ({"role": "user", "content": text}, {"role": "assistant", "content": "."}))
        for number, text in enumerate(_TALK)
    )
    return _set(EVERYDAY, _encoded(asked, chat), size, longest, "everyday questions, built into Eyas")


def of_file(name: str, path: str, chat: Chat, size: int, longest: int) -> PromptSet:
    """Of the operator's own file of conversations. Raises StageError as reading conversations does."""
    return _set(name, _encoded(conversations.read(path), chat), size, longest, path)


def _set(name: str, prompts: Iterable[tuple[int, ...]], size: int, longest: int, source: str) -> PromptSet:
    """`longest`: tokens that a prompt may have."""
    picked: list[tuple[int, ...]] = []
    left_out = 0
    for prompt in prompts:
        if len(prompt) > longest:
            left_out += 1
        elif prompt and prompt not in picked:
            picked.append(prompt)
        if len(picked) == size:
            break
    return PromptSet(name, tuple(picked), source, left_out)


def _after(source: str, last: str) -> Iterator[Conversation]:
    found = False
    for conversation in conversations.read(source):
        if found:
            yield conversation
        found = found or conversation.place == last


def _encoded(found: Iterable[Conversation], chat: Chat) -> Iterator[tuple[int, ...]]:
    for conversation in found:
        if conversation.fault:
            continue
        try:
            ids, mask = chat.encode(_first_turn(conversation.messages))
        except MaskError:
            continue
        yield _opening(ids, mask)


def _first_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """Up to the assistant's first answer: chat templates may render earlier turns otherwise than the last."""
    first = next((i for i, message in enumerate(messages) if message.get("role") == "assistant"), len(messages))
    return messages[: first + 1]


def _opening(ids: Sequence[int], mask: Sequence[int]) -> tuple[int, ...]:
    said = list(mask)
    return tuple(ids[: said.index(1)]) if 1 in said else ()
