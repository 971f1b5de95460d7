"""Llama-3, 3.1, 3.2 and 3.3. A turn that calls a tool ends with `<|eom_id|>`, which 3.0 does not have."""

from __future__ import annotations

from pipeline.families.family import ROLES, Family, Published

FAMILY = Family(
    name="Llama-3",
    header="<|start_header_id|>assistant<|end_header_id|>\n\n",
    ends=("<|eot_id|>", "<|eom_id|>"),
    special=("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    published=(
        Published(
            ("llama", "mllama", "mllama_text_model"),
            128256,
            {
                "<|begin_of_text|>": 128000,
                "<|end_of_text|>": 128001,
                "<|start_header_id|>": 128006,
                "<|end_header_id|>": 128007,
                "<|eot_id|>": 128009,
            },
        ),
    ),
    roles=(*ROLES, "ipython"),
)
