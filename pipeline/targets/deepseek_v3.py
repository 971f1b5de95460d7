"""A DeepSeek-V3-type target: latent attention of DeepSeek's own dimensions per head, and a mixture of experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.targets import llama

SPECIAL = llama.SPECIAL
save = llama.save
SHAPE = {
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 96,
    "kv_lora_rank": 512,  # this and the next: the only sizes that vLLM's MLA on the CPU takes
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "routed_scaling_factor": 1.0,
    "topk_method": "noaux_tc",  # transformers knows no other way; vLLM asks for its name
    "scoring_func": "sigmoid",
}


def make(common: Mapping[str, Any]) -> Any:
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    return DeepseekV3ForCausalLM(DeepseekV3Config(**SHAPE, **common))
