"""DeepSeek-V3, R1 and V3.1. R1's template ends a prompt with `<think>` and a line break, V3.1's with `</think>` or
`<think>`; all of them leave the reasoning of earlier turns out, and R1's that of the last one too."""

from __future__ import annotations

from pipeline.families.family import Family, Published

FAMILY = Family(
    name="DeepSeek-V3",
    header="<｜Assistant｜>",
    ends=("<｜end▁of▁sentence｜>",),
    special=("<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
    published=(
        Published(
            ("deepseek_v3", "deepseek_v32"),
            129280,
            {
                "<｜begin▁of▁sentence｜>": 0,
                "<｜end▁of▁sentence｜>": 1,
                "<｜User｜>": 128803,
                "<｜Assistant｜>": 128804,
            },
            only=True,
        ),
    ),
    reasoning=(("<think>\n", "\n</think>\n\n"), ("<think>", "</think>")),
    thinks=("<think>", "</think>"),
    empty=("<think>\n\n</think>\n\n", "<think></think>", "</think>"),
    joins_arguments=True,
)
