"""Greedy speculative decoding in this process: the target by transformers, the draft model by its own modules.

The draft model's row i has the token i + 1 and the target's aux states of token i, as in its training. A round feeds it
the rows that were accepted since the last, lets it follow its own states for k tokens, and has the target look at all
of them in one forward.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pipeline import language_model
from pipeline.draft.acceptance import Answer
from pipeline.report import StageError


class Target:
    """A target that hands out its aux layers. `layers` are vLLM's ids: id k is the input of decoder layer k."""

    def __init__(self, folder: Path, layers: Sequence[int], dtype: str = "float32") -> None:
        import torch

        try:
            model = language_model.load(folder, dtype)
        except (ValueError, OSError, KeyError) as error:
            raise StageError(
                f"transformers does not load the target in {folder} ({str(error).splitlines()[0]})."
            ) from error
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = model.to(self.device).eval()
        self.layers = tuple(layers)

    def begin(self) -> Any:
        """A cache for one sequence."""
        from transformers import DynamicCache

        return DynamicCache()

    def forward(self, ids: Sequence[int], cache: Any) -> tuple[list[int], Any]:
        """(the target's next token after each of `ids`, their aux states [S, 3 H]); `cache` has what comes before."""
        import torch

        with torch.no_grad():
            output = self.model(
                torch.tensor([list(ids)], device=self.device), past_key_values=cache, output_hidden_states=True
            )
        states = torch.cat([output.hidden_states[i][0] for i in self.layers], dim=-1)
        return output.logits[0].argmax(-1).tolist(), states

    def greedy(self, prompt: Sequence[int], max_tokens: int, ends: Collection[int]) -> tuple[int, ...]:
        """What the target says alone, token by token."""
        cache = self.begin()
        said = [self.forward(prompt, cache)[0][-1]]
        while len(said) < max_tokens and said[-1] not in ends:
            said.append(self.forward(said[-1:], cache)[0][-1])
        return tuple(said)


class Draft:
    """A chain of an Eagle3DraftModel's tokens for one sequence. `model` is on the target's device, of its dtype."""

    def __init__(self, model: Any) -> None:
        from transformers import DynamicCache

        for layer in model.layers:
            layer.self_attn.config._attn_implementation = "eager"
        self._model = model
        self._cache = DynamicCache()
        self._rows = 0

    def propose(self, tokens: Sequence[int], states: Any, count: int) -> list[int]:
        """The next `count` tokens. `tokens` [S] and `states` [S, 3 H] are the rows accepted since the last round."""
        import torch

        model = self._model
        with torch.no_grad():
            hidden = self.fuse(states)[None]
            proposed: list[int] = []
            feed = list(tokens)
            for step in range(count):
                outputs = self._run(feed, hidden, self._rows + step)
                normed = model.norm(outputs[:, -1:])
                best = int(model.lm_head(normed)[0, 0].argmax())
                proposed.append(best + int(model.d2t[best]) if model.d2t is not None else best)
                hidden = normed if model.config.norm_output else outputs[:, -1:]
                feed = proposed[-1:]
                if step == 0:
                    self._rows += len(tokens) - 1
            self._rows += 1
            _drop(self._cache, count - 1)
        return proposed

    def fuse(self, states: Any) -> Any:
        """[S, 3 H] → [S, H], through the norms that this draft model has."""
        import torch

        model = self._model
        if model.input_norm is not None:
            states = model.input_norm(states)
        if model.fc_norm is not None:
            chunks = states.chunk(len(model.fc_norm), dim=-1)
            states = torch.cat([norm(chunk) for norm, chunk in zip(model.fc_norm, chunks, strict=True)], dim=-1)
        return model.fc(states)

    def _run(self, tokens: Sequence[int], hidden: Any, before: int) -> Any:
        import torch

        model, device = self._model, hidden.device
        count = len(tokens)
        embedded = model.embed_tokens(torch.tensor([list(tokens)], device=device))
        hidden = torch.cat([embedded, hidden], dim=-1)
        positions = torch.arange(before + 1, before + 1 + count, device=device)[None]
        mask = torch.full((count, before + count), float("-inf"), dtype=hidden.dtype, device=device).triu(before + 1)
        rotated = model.rotary_emb(hidden, positions)
        for layer in model.layers:
            hidden = layer(
                hidden,
                attention_mask=mask[None, None],
                position_ids=positions,
                past_key_values=self._cache,
                position_embeddings=rotated,
            )
        return hidden


def answer(
    target: Target, model: Any, prompt: Sequence[int], proposed: int, max_tokens: int, ends: Collection[int]
) -> Answer:
    """Answers one prompt with `proposed` tokens of the draft model in a round."""
    cache, draft = target.begin(), Draft(model)
    best, states = target.forward(prompt, cache)
    said, accepted = [best[-1]], []
    rows = [*prompt[1:], said[-1]]
    over = said[-1] in ends
    while len(said) < max_tokens and not over:
        guess = draft.propose(rows, states, proposed)
        best, states = target.forward([said[-1], *guess], cache)
        right = 0
        while right < proposed and guess[right] == best[right]:
            right += 1
        accepted.append(right)
        rows = [*guess[:right], best[right]]
        states = states[: right + 1]
        _drop(cache, proposed - right)
        said += rows
        over = any(token in ends for token in rows)  # a draft may guess what comes after the end, too, and be right
    end = next((i + 1 for i, token in enumerate(said) if token in ends), len(said))
    return Answer(tuple(said[: min(end, max_tokens)]), tuple(accepted))


def _drop(cache: Any, last: int) -> None:
    """Takes the last tokens out of a cache."""
    if last:
        cache.crop(-last)
