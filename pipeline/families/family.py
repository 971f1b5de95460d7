"""What a family of models writes around a turn of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class Published:
    """Special tokens and their ids, as a model of this kind was published with them."""

    model_types: tuple[str, ...]
    """`model_type` of config.json, or of its text_config."""
    vocabulary: int
    """`vocab_size` of the config."""
    ids: Mapping[str, int]
    only: bool = False
    """No model of this kind speaks another format; Llamas and Qwens are tuned to many."""


@dataclass(frozen=True)
class Family:
    """A chat format. Texts are as the chat template writes them; special tokens stand in them by name."""

    name: str
    header: str
    """Stands before what the assistant says: where a prompt ends and the model goes on. Begins with a special token."""
    ends: tuple[str, ...]
    """Special tokens of which one ends the assistant's turn; it is the assistant's own. The first must be there."""
    special: tuple[str, ...]
    """Special tokens that make the format: each is one token, and no text of a conversation may hold one."""
    published: tuple[Published, ...] = ()
    reasoning: tuple[tuple[str, str], ...] = ()
    """(before, after) the reasoning, in the styles of the family's models, the usual one first."""
    thinks: tuple[str, ...] = ()
    """Tokens that a tokenizer of the family has when its models reason."""
    empty: tuple[str, ...] = ()
    """What a template writes for a turn without reasoning. The assistant never says it: it is no part of the mask."""
    roles: tuple[str, ...] = ROLES
    joins_arguments: bool = False
    """Its templates write the arguments of a call as they are given, so they must be JSON; others make it of them."""
