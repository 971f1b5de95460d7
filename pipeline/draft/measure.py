"""Acceptance on sets of prompts: in this process, and what the target says alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import origin, products
from pipeline.chat.load import chat_of
from pipeline.dataset import Sample
from pipeline.draft import model as draft_model
from pipeline.draft import prompts, serve, simulate
from pipeline.draft.acceptance import Answer
from pipeline.draft.prompts import PromptSet
from pipeline.layers import Layers
from pipeline.report import StageError, note
from pipeline.settings import Settings
from pipeline.verifying import reference


@dataclass(frozen=True)
class Task:
    """What is asked of a draft model: so many tokens after each prompt, so many of them proposed in a round."""

    proposed: int
    max_tokens: int
    ends: frozenset[int]
    sets: tuple[PromptSet, ...]

    @property
    def max_length(self) -> int:
        """Tokens of the longest prompt with its answer."""
        return max(len(prompt) for one in self.sets for prompt in one.prompts) + self.max_tokens


def task(wanted: Settings, samples: Sequence[Sample], about: dict[str, Any], names: Collection[str] = ()) -> Task:
    """The built-in sets and the operator's own, or those of `names` alone; without those that have no prompt.

    `about` is what dataset.json says. Raises StageError when the operator's files cannot be read.
    """
    target = products.target(wanted)
    asked = wanted.evaluate
    proposed = wanted.train.ttt_steps
    max_tokens = min(asked.max_tokens, max(2, wanted.max_length // 2))
    longest = wanted.max_length - max_tokens - serve.margin(proposed)  # the engine is made for run.max_length at most
    chat = chat_of(target)
    made: dict[str, Callable[[], PromptSet]] = {
        prompts.HELD_OUT: lambda: prompts.held_out(wanted.conversations, samples, chat, asked.set_size, longest),
        prompts.TRAINED: lambda: prompts.trained(samples, asked.set_size, longest),
        prompts.EVERYDAY: lambda: prompts.everyday(chat, asked.set_size, longest),
    }
    for name, path in asked.prompts.items():
        made[name] = lambda name=name, path=path: prompts.of_file(  # type: ignore[misc]
            name, path, chat, asked.set_size, longest
        )
    sets = [make() for name, make in made.items() if not names or name in names]
    for one in sets:
        if not one.prompts:
            note(f"The set {one.name} has no prompt of at most {longest} tokens ({one.source}); it is left out.")
    marks = about.get("marks")
    return Task(proposed, max_tokens, prompts.ends(target, marks), tuple(one for one in sets if one.prompts))


def simulation(wanted: Settings, target: Path, asked: Task, dtype: str) -> Simulation | None:
    """The target in this process; None, with a word on it, where it does not fit or is not wanted."""
    if not wanted.evaluate.simulate:
        note("stage.evaluate.simulate is false: the engine's figures stand alone.")
        return None
    room = reference.room(target)
    if not room.fits:
        note(f"Nothing is simulated, and the engine's figures stand alone: {room.told}.")
        return None
    try:
        return Simulation(target, origin.layers(wanted, target), dtype, asked)
    except StageError as error:
        note(f"Nothing is simulated, and the engine's figures stand alone: {error}")
        return None


class Simulation:
    """The target in this process, with what it says alone after each prompt, kept for every draft that is measured."""

    def __init__(self, target: Path, layers: Layers, dtype: str, asked: Task) -> None:
        self.target = simulate.Target(target, layers.vllm_ids[:-1], dtype)
        self._asked = asked
        self._folder = target
        self._dtype = dtype
        self._alone: dict[str, list[tuple[int, ...]]] = {}

    def alone(self, one: PromptSet, tell: Callable[[], None] = lambda: None) -> list[tuple[int, ...]]:
        """Plain greedy answers."""
        if one.digest not in self._alone:
            found = []
            for prompt in one.prompts:
                found.append(self.target.greedy(prompt, self._asked.max_tokens, self._asked.ends))
                tell()
            self._alone[one.digest] = found
        return self._alone[one.digest]

    def draft(self, folder: Path) -> Any:
        """A draft model to answer with."""
        import torch

        loaded = draft_model.load(folder, self._folder, getattr(torch, self._dtype))
        return loaded.to(self.target.device).eval()

    def answers(self, draft: Any, one: PromptSet, tell: Callable[[], None] = lambda: None) -> list[Answer]:
        found = []
        for prompt in one.prompts:
            asked = self._asked
            found.append(simulate.answer(self.target, draft, prompt, asked.proposed, asked.max_tokens, asked.ends))
            tell()
        return found
