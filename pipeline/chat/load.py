"""The chat format of a target folder, found and checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from pipeline import families
from pipeline.chat.known import PROBE, KnownChat
from pipeline.chat.template import Template
from pipeline.chat.unknown import UnknownChat
from pipeline.conversations import Message
from pipeline.masking import Marks, MaskError
from pipeline.report import StageError


class Chat(Protocol):
    """Makes samples of conversations."""

    @property
    def name(self) -> str: ...

    @property
    def marks(self) -> Marks | None:
        """Ids by which the mask of any sample can be found again; None when the format is none that is known."""

    @property
    def erased(self) -> int: ...

    def encode(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> tuple[list[int], list[int]]: ...


def template_of(target: Path) -> Template:
    """Raises StageError when the tokenizer does not load or has no chat template."""
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(str(target), trust_remote_code=True)
    except Exception as error:  # whatever transformers, or the model's own code, raises
        raise StageError(
            f"The tokenizer in {target} does not load ({type(error).__name__}: {error}); copy the model's own "
            "tokenizer files there."
        ) from error
    if not tokenizer.chat_template:
        raise StageError(
            f"The tokenizer in {target} has no chat template: the model was not made for conversations, or its "
            "chat_template.jinja was not copied; add it there, or take the instruct model."
        )
    return Template(tokenizer)


def chat_of(target: Path) -> Chat:
    """Raises StageError when the tokenizer is not the model's, or its template is of no use."""
    template = template_of(target)
    types, vocabulary = _model(target / "config.json")
    try:
        prompt = template.render(PROBE, prompt=True)
        family = families.choose(prompt, template.encode, types, vocabulary, str(target))
        if family is None or not _breaks_cleanly(template, family.header):
            return UnknownChat(template)
        return KnownChat(template, family)
    except MaskError as error:
        raise StageError(f"The chat template in {target} fails on the plainest conversation: {error}.") from error


def _breaks_cleanly(template: Template, header: str) -> bool:
    """Whether a text keeps its tokens when what follows a header is tokenised by itself; SentencePiece's may not."""
    return template.encode(f"{header}word") == template.encode(header) + template.encode("word")


def _model(config: Path) -> tuple[set[str], int]:
    """(model types, vocabulary) of a config.json, its text_config included."""
    data = json.loads(config.read_text(encoding="utf-8"))
    parts = [data, data.get("text_config") or {}]
    sizes = [part["vocab_size"] for part in parts if isinstance(part.get("vocab_size"), int)]
    return {str(part["model_type"]) for part in parts if part.get("model_type")}, max(sizes, default=0)
