"""Families of models, one chat format a file; the one of a target is told by its chat template and its tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pipeline.families import chatml, deepseek_v3, kimi, llama3, qwen3
from pipeline.families.family import Family, Published
from pipeline.report import StageError

FAMILIES: tuple[Family, ...] = (kimi.FAMILY, deepseek_v3.FAMILY, llama3.FAMILY, qwen3.FAMILY, chatml.FAMILY)
"""The more particular before the more general."""
Encode = Callable[[str], Sequence[int]]
"""Text → token ids, special tokens in it found, none added."""


def choose(prompt: str, encode: Encode, model_types: Iterable[str], vocabulary: int, place: str) -> Family | None:
    """The family whose header the rendered `prompt` has, checked; None when it is none of them.

    `place` names the target in messages. Raises StageError when the tokenizer's special tokens are not what the model
    was published with, not single tokens, or beyond its vocabulary.
    """
    types = set(model_types)
    spoken = [family for family in FAMILIES if family.header in prompt]
    family = next((f for f in spoken if all(_is_one(encode, token) for token in f.special)), None)
    if spoken and family is None:
        split = next(t for t in spoken[-1].special if not _is_one(encode, t))
        raise StageError(
            f"The chat template in {place} writes {split!r}, which its tokenizer takes apart into "
            f"{len(encode(split))} tokens; copy the tokenizer that belongs to the template."
        )
    for other in FAMILIES:
        published = _published(other, types, vocabulary)
        if published and published.only and other is not family:
            raise StageError(
                f"The model in {place} is a {other.name} ({', '.join(sorted(types))}, vocabulary {vocabulary}) and its "
                f"tokenizer speaks {family.name if family else 'another chat format'}; copy the model's own tokenizer "
                "files and chat template there."
            )
    if family is not None:
        _check_ids(family, _published(family, types, vocabulary), encode, vocabulary, place)
    return family


def _published(family: Family, types: set[str], vocabulary: int) -> Published | None:
    found = (p for p in family.published if p.vocabulary == vocabulary and types & set(p.model_types))
    return next(found, None)


def _check_ids(family: Family, published: Published | None, encode: Encode, vocabulary: int, place: str) -> None:
    for token, wanted in (published.ids if published else {}).items():
        found = list(encode(token))
        if found != [wanted]:
            told = f"the id {found[0]}" if len(found) == 1 else f"{len(found)} tokens"
            raise StageError(
                f"The tokenizer in {place} gives {token!r} {told}, and {family.name} was published with {wanted}: "
                "every sample would be of other tokens than the model knows; copy the model's own tokenizer files "
                "there, and take care that no other class of tokenizer is made of them."
            )
    for token in family.special:
        (number,) = encode(token)
        if vocabulary and number >= vocabulary:
            raise StageError(
                f"The tokenizer in {place} gives {token!r} the id {number}, and the model's vocabulary ends at "
                f"{vocabulary - 1}; copy the model's own tokenizer files there."
            )


def _is_one(encode: Encode, token: str) -> bool:
    return len(encode(token)) == 1
