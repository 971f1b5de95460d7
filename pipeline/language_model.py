"""A target as transformers loads it: of a wrapper for which it has no causal class, the language model inside.

Kimi-K2.5 is such a wrapper: transformers 4 does not know it at all, transformers 5 only together with its pictures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.report import StageError

PREFIXES = {"language_model.": "", "model.language_model.": "model.", "lm_head.": "lm_head."}
"""How names of a wrapper's weights begin that are its language model's → how they begin where that stands alone."""
SAME = {"kimi_k2": "deepseek_v3"}
"""Types that transformers knows under another name."""


def load(target: Path, dtype: str = "auto") -> Any:
    """The model on the CPU. `dtype` is torch's name of one; `auto` is the target's own, but bfloat16 for 32-bit floats,
    as in vLLM.

    Raises StageError for a wrapper without all weights of its language model, and whatever transformers raises of a
    model that it does not load.
    """
    import torch
    from transformers import AutoModelForCausalLM

    config: dict[str, Any] = json.loads((target / "config.json").read_text(encoding="utf-8"))
    kind = getattr(torch, _own_dtype(config) if dtype == "auto" else dtype)
    text = _language_model(config)
    if text is None:
        return AutoModelForCausalLM.from_pretrained(target, dtype=kind, trust_remote_code=True)
    return _inside(target, text, kind)


def _inside(target: Path, text: Mapping[str, Any], dtype: Any) -> Any:
    """The language model that `text` describes. All its weights are read before it is made of them: twice its memory,
    for the time of loading."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig

    config = AutoConfig.for_model(**text)
    made = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    weights = _weights(target)
    # Under their own names the weights would be taken for those of a model without a head.
    model, told = made.from_pretrained(None, config=config, state_dict=weights, dtype=dtype, output_loading_info=True)
    missing = sorted(told["missing_keys"])
    if missing:
        raise StageError(
            f"{target} lacks {len(missing)} weights of the {text['model_type']} inside it, the first {missing[0]}; "
            "copy the model's shards again, or use an environment of vLLM."
        )
    return model


def _weights(target: Path) -> dict[str, Any]:
    """The language model's tensors by the names that they have where it stands alone."""
    from safetensors import safe_open

    found = {}
    for shard in sorted(target.glob("*.safetensors")):
        with safe_open(shard, framework="pt") as file:
            for name in sorted(file.keys()):
                prefix = next((prefix for prefix in PREFIXES if name.startswith(prefix)), None)
                if prefix is not None:
                    found[PREFIXES[prefix] + name[len(prefix) :]] = file.get_tensor(name)
    return found


def _language_model(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """The language model's part of a wrapper's config.json, where transformers loads that and not the whole."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    text = config.get("text_config")
    if not isinstance(text, dict) or config.get("model_type") in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return None
    kind = SAME.get(str(text.get("model_type")), text.get("model_type"))
    tied = {key: config[key] for key in ("tie_word_embeddings",) if key in config}  # some wrappers alone say it
    return {**tied, **text, "model_type": kind} if kind in CONFIG_MAPPING else None


def _own_dtype(config: Mapping[str, Any]) -> str:
    parts = [part for part in (config, config.get("text_config")) if isinstance(part, dict)]
    named = next((part[key] for part in parts for key in ("dtype", "torch_dtype") if part.get(key)), "bfloat16")
    return "bfloat16" if named == "float32" else str(named)
