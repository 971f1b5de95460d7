"""A target's tokenizer with its chat template: the only place that calls it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from pipeline.conversations import Message
from pipeline.masking import MaskError

DAY = datetime.datetime(2024, 7, 26)
"""Today, for templates that write the day into the system prompt: with the real one, another day or another host would
make other samples of the same conversations. It is the day that Llama-3.1's own template always writes."""


class Template:
    """The same under transformers 4 and 5, for fast and for slow tokenizers."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def render(self, messages: Sequence[Message], prompt: bool, tools: Sequence[Any] = ()) -> str:
        """The conversation as text; a `prompt` ends where the assistant goes on, with reasoning where it can.

        Raises MaskError when the template refuses the conversation.
        """
        how: dict[str, Any] = {"strftime_now": DAY.strftime}
        if prompt:
            how |= {"thinking": True, "enable_thinking": True}
        if tools:
            how["tools"] = list(tools)
        try:
            text = self._tokenizer.apply_chat_template(
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=prompt, **how
            )
        except Exception as error:  # whatever the template raises: jinja2's own errors, or those of code it calls
            raise MaskError(f"the chat template refuses it ({error}); mend its turns") from error
        return str(text)

    def encode(self, text: str) -> list[int]:
        """Token ids; special tokens in the text are found, none are added."""
        return [int(i) for i in self._tokenizer(text, add_special_tokens=False)["input_ids"]]

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text with special tokens by name."""
        text = self._tokenizer.decode(
            list(token_ids),
            skip_special_tokens=False,
            clean_up_tokenization_spaces=False,
            spaces_between_special_tokens=False,  # which slow tokenizers of transformers 4 put there
        )
        return str(text)
