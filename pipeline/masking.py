"""Token ids and loss mask of a conversation, both from the chat template and the token ids it gives.

The mask is found by rendering the conversation up to each assistant turn with the generation prompt, and up to its
end: the token ids in between are what the assistant says. Characters are never compared, so no regular expression has
to know the template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipeline.corpus import Message

Render = Callable[[Sequence[Message], bool], list[int]]
"""(messages, add the generation prompt) → token ids."""


class MaskError(ValueError):
    """The template does not render a conversation turn by turn, or no assistant says anything in it."""


def encode(messages: Sequence[Message], render: Render) -> tuple[list[int], list[int]]:
    """(token_ids, loss_mask), equally long, uncut. Raises MaskError."""
    ids = render(messages, False)
    mask = [0] * len(ids)
    for turn, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = render(messages[:turn], True)
        until = render(messages[: turn + 1], False)
        if ids[: len(until)] != until or until[: len(before)] != before:
            raise MaskError(
                f"the chat template renders turn {turn} differently once others follow, so its tokens cannot be told"
            )
        mask[len(before) : len(until)] = [1] * (len(until) - len(before))
    if not any(mask):
        raise MaskError("no token of it is said by the assistant, so there is nothing to learn from")
    return ids, mask
