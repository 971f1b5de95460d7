"""Qwen3: ChatML with reasoning. The template writes an empty pair where the last turn has none, and leaves the
reasoning of earlier turns out."""

from __future__ import annotations

from pipeline.families import chatml
from pipeline.families.family import Family, Published

FAMILY = Family(
    name="Qwen3",
    header=chatml.HEADER,
    ends=chatml.ENDS,
    special=(*chatml.SPECIAL, "<think>", "</think>"),
    published=(Published(("qwen3", "qwen3_moe"), 151936, {**chatml.QWEN_IDS, "<think>": 151667, "</think>": 151668}),),
    reasoning=(("<think>\n", "\n</think>\n\n"),),
    thinks=("<think>", "</think>"),
    empty=("<think>\n\n</think>\n\n",),
)
