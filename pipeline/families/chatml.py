"""ChatML: Qwen2.5, SmolLM2, Hermes and many others."""

from __future__ import annotations

from pipeline.families.family import Family, Published

HEADER = "<|im_start|>assistant\n"
ENDS = ("<|im_end|>",)
SPECIAL = ("<|im_start|>", "<|im_end|>")
QWEN_IDS = {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}

FAMILY = Family(
    name="ChatML",
    header=HEADER,
    ends=ENDS,
    special=SPECIAL,
    published=(
        Published(("qwen2", "qwen2_moe"), 151936, QWEN_IDS),
        Published(("qwen2",), 152064, QWEN_IDS),
    ),
)
