"""How often a draft model is right when it is fed what was really said: its accuracy on stored states, step by step.

This is what training measures as it goes, recomputed here on a few samples, also with a part of the draft model
altered: where an altered one does better than the one as it is, that part is wrong.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

STEPS = 3


@dataclass(frozen=True)
class Lesson:
    """One sample, as a draft model is taught with it."""

    ids: Any
    """int64 [S]"""
    mask: Any
    """bool [S]: what the assistant says."""
    states: Any
    """[S, 3 H], the aux layers of every token."""
    best: Any
    """int64 [S]: the target's own next token after each."""
    last: Any
    """[S, H], the last layer's output before the final norm."""


@dataclass(frozen=True)
class Score:
    """Shares of right proposals at each step, over the positions at which the draft model can say the right token."""

    named: tuple[float, ...]
    """By the token ids that d2t leads to: what an engine would be given."""
    ranked: tuple[float, ...]
    """By the place among the ids that t2d lists: what the head has learnt, whatever d2t says."""
    loss: float
    """Mean over the steps of KL(target ‖ draft) in nats. It moves where no token does: a draft model's accuracy may
    hardly suffer from a wrong norm or a wrong layer, and its loss does, for it was trained to be low."""

    @property
    def told(self) -> str:
        return " / ".join(f"{share:.0%}" for share in self.named)


def score(model: Any, lessons: Sequence[Lesson], steps: int = STEPS) -> Score:
    """The draft model's score over all lessons together."""
    import torch
    from speculators.losses import resolve_loss_config

    total = torch.zeros(3, steps)
    loss = 0.0
    for lesson in lessons:
        with torch.no_grad():
            ids = lesson.ids[None, 1:]
            proposed, lost, _ = model(
                hidden_states=lesson.states[None, :-1],
                input_ids=ids,
                document_ids=torch.zeros_like(ids),
                loss_mask=lesson.mask[None, 1:].long(),
                verifier_last_hidden_states=lesson.last[None, 1:],
                ttt_steps=steps,
                loss_config=resolve_loss_config("kl_div", "eager"),
            )
        loss += float(lost) / steps / len(lessons)
        total += torch.stack([_counts(model, lesson, step, found[0]) for step, found in enumerate(proposed)], dim=1)
    share = total[1:] / total[0].clamp_min(1)
    return Score(tuple(share[0].tolist()), tuple(share[1].tolist()), loss)


def _counts(model: Any, lesson: Lesson, step: int, proposed: Any) -> Any:
    """[positions, right by name, right by rank] of one step. Row i of `proposed` speaks of the token i + 2 + step."""
    import torch

    right = lesson.best[1 + step :]
    asked = lesson.mask.bool()[1 + step :]
    proposed = proposed[: len(right)]
    if model.d2t is None:
        counted = ((proposed == right) & asked).sum()
        return torch.stack([asked.sum(), counted, counted]).float()
    known = model.t2d.bool()
    asked = asked & known[right]
    ranks = known.long().cumsum(0) - 1
    named, ranked = proposed + model.d2t[proposed] == right, proposed == ranks[right]
    return torch.stack([asked.sum(), (named & asked).sum(), (ranked & asked).sum()]).float()


@contextmanager
def norm_output(model: Any) -> Iterator[None]:
    """With the norm on what is fed back switched over, on or off."""
    model.config.norm_output = not model.config.norm_output
    try:
        yield
    finally:
        model.config.norm_output = not model.config.norm_output


@contextmanager
def rotated(model: Any, parameters: Mapping[str, Any]) -> Iterator[None]:
    """With positions rotated as these `rope_parameters` say."""
    kept = model.rotary_emb
    config = copy.copy(model.config.transformer_layer_config)
    config.rope_parameters = dict(parameters)
    model.rotary_emb = type(kept)(config).to(model.fc.weight.device)
    try:
        yield
    finally:
        model.rotary_emb = kept
