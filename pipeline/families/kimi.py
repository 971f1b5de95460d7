"""Kimi-K2, Kimi-K2-Thinking and Kimi-K2.5.

The template writes every turn up to and with the last assistant turn with an empty `<think></think>`: all reasoning of
a training conversation is gone, for it ends with such a turn. K2.5 ends a prompt with `<think>`, K2-Thinking does not.
"""

from __future__ import annotations

from pipeline.families.family import Family, Published

_IDS = {
    "[BOS]": 163584,
    "[EOS]": 163585,
    "<|im_end|>": 163586,
    "<|im_user|>": 163587,
    "<|im_assistant|>": 163588,
    "<|im_system|>": 163594,
    "<|im_middle|>": 163601,
}
# transformers 5 may make a fast tokenizer of Kimi's own in which these are off by one to three.
_THINK = {"<|media_pad|>": 163605, "<think>": 163606, "</think>": 163607}

FAMILY = Family(
    name="Kimi-K2",
    header="<|im_assistant|>assistant<|im_middle|>",
    ends=("<|im_end|>",),
    special=("<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>"),
    published=(
        Published(("kimi_k25",), 163840, {**_IDS, **_THINK}, only=True),
        Published(("kimi_k2", "deepseek_v3"), 163840, _IDS, only=True),
    ),
    reasoning=(("<think>", "</think>"),),
    thinks=("<think>", "</think>"),
    empty=("<think></think>",),
)
