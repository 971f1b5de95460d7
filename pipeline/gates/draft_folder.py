"""Gate `draft-folder`: a draft model's folder holds what its config says, and what its target needs.

vLLM's own words for these faults are a KeyError or an AssertionError of a worker. Only headers and the vocabulary's
mappings are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.gates.report import GateReport, failed, passed

GATE = "draft-folder"
MAPPINGS = ("d2t", "t2d")


def check(folder: Path, target: Mapping[str, Any]) -> GateReport:
    """`target` is the config of the target's language model."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        decoder = config["transformer_layer_config"]
        tensors = headers(folder)
        fault = _config(config, decoder, target) or _tensors(expected(config), tensors)
        mapping = "" if fault else check_mapping(folder, tensors, int(config["draft_vocab_size"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        told = f"{type(error).__name__}: {error}"
        return failed(GATE, "unreadable", f"{folder} is no draft model in speculators' form ({told}).")
    if fault:
        return failed(GATE, fault[0], f"{folder}: {fault[1]}.")
    if mapping:
        return failed(GATE, "vocabulary mapping", f"{folder}: {mapping}.")
    return passed(GATE, f"{folder} holds the {len(tensors)} tensors that its config asks for, and fits its target.")


def headers(folder: Path) -> dict[str, tuple[int, ...]]:
    """Name → shape of every tensor in the safetensors files of a folder."""
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        found |= {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    if not found:
        raise OSError("it has no safetensors file")
    return found


def expected(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Name → shape of every tensor of an EAGLE-3 draft model in speculators' form."""
    decoder = config["transformer_layer_config"]
    hidden, inner, head = decoder["hidden_size"], decoder["intermediate_size"], decoder["head_dim"]
    queries, keys = decoder["num_attention_heads"] * head, decoder["num_key_value_heads"] * head
    aux = len(config.get("eagle_aux_hidden_state_layer_ids") or (0, 0, 0))
    small, large = config["draft_vocab_size"], decoder["vocab_size"]
    shapes: dict[str, tuple[int, ...]] = {
        "embed_tokens.weight": (large, hidden),
        "fc.weight": (hidden, aux * hidden),
        "norm.weight": (hidden,),
        "lm_head.weight": (small, hidden),
    }
    for number in range(decoder["num_hidden_layers"]):
        layer = f"layers.{number}."
        wide = 2 * hidden if number == 0 else hidden
        shapes |= {
            f"{layer}input_layernorm.weight": (hidden,),
            f"{layer}post_attention_layernorm.weight": (hidden,),
            f"{layer}self_attn.q_proj.weight": (queries, wide),
            f"{layer}self_attn.k_proj.weight": (keys, wide),
            f"{layer}self_attn.v_proj.weight": (keys, wide),
            f"{layer}self_attn.o_proj.weight": (hidden, queries),
            f"{layer}mlp.gate_proj.weight": (inner, hidden),
            f"{layer}mlp.up_proj.weight": (inner, hidden),
            f"{layer}mlp.down_proj.weight": (hidden, inner),
        }
        if number == 0:
            shapes[f"{layer}hidden_norm.weight"] = (hidden,)
        if decoder["model_type"] == "qwen3":
            shapes |= {f"{layer}self_attn.{part}_norm.weight": (head,) for part in "qk"}
        if decoder.get("attention_bias"):
            sizes = {"q": queries, "k": keys, "v": keys}
            shapes |= {f"{layer}self_attn.{part}_proj.bias": (size,) for part, size in sizes.items()}
    if config.get("norm_before_fc"):
        shapes["input_norm.weight"] = (aux * hidden,)
    if config.get("fc_norm"):
        shapes |= {f"fc_norm.{number}.weight": (hidden,) for number in range(aux)}
    if small != large:
        shapes |= {"d2t": (small,), "t2d": (large,)}
    return shapes


def check_mapping(folder: Path, tensors: Mapping[str, Any], size: int) -> str:
    """What is wrong with the vocabulary's mappings; "" when they fit each other or there are none."""
    if "d2t" not in tensors:
        return ""
    from safetensors import safe_open

    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            found |= {name: file.get_tensor(name) for name in MAPPINGS if name in file.keys()}  # noqa: SIM118
    return mapping_fault(found["d2t"], found["t2d"], size)


def mapping_fault(d2t: Any, t2d: Any, size: int) -> str:
    """`d2t` [D] are offsets: draft id i stands for the target's i + d2t[i]. `t2d` [V] tells which ids those are."""
    import torch

    targets = torch.arange(size) + d2t.long()
    if int(targets.min()) < 0 or int(targets.max()) >= len(t2d):
        return f"d2t leads to the token id {int(targets.max())}, and the target has {len(t2d)} tokens"
    if not bool((targets[1:] > targets[:-1]).all()):
        return "d2t does not lead to rising token ids, as offsets of a draft vocabulary do"
    if not torch.equal(targets, t2d.bool().nonzero().flatten()):
        wrong = int((t2d.bool()[targets] == 0).sum())
        return f"d2t and t2d disagree: {wrong} of the {size} token ids that d2t leads to are not among t2d's"
    return ""


def _config(config: Mapping[str, Any], decoder: Mapping[str, Any], target: Mapping[str, Any]) -> tuple[str, str] | None:
    for key in ("hidden_size", "vocab_size"):
        if decoder[key] != target[key]:
            return "another target", f"{key} is {decoder[key]} in its config, and the target's is {target[key]}"
    if config["draft_vocab_size"] > decoder["vocab_size"]:
        told = f"draft_vocab_size is {config['draft_vocab_size']}, and the target has {decoder['vocab_size']} tokens"
        return "vocabulary mapping", told
    ids, total = config.get("eagle_aux_hidden_state_layer_ids"), target["num_hidden_layers"]
    if not ids or len(ids) != 3 or not all(0 < i < total for i in ids):
        told = f"eagle_aux_hidden_state_layer_ids is {ids}: three ids of 1 to {total - 1} in vLLM's convention are due"
        return "wrong layer", told
    if not config.get("speculators_config", {}).get("verifier", {}).get("name_or_path"):
        return "no target", "speculators_config.verifier.name_or_path names no target"
    return None


def _tensors(wanted: Mapping[str, Any], tensors: Mapping[str, Any]) -> tuple[str, str] | None:
    for name in sorted(wanted.keys() - tensors.keys()):
        if name != "embed_tokens.weight":  # the engine takes the target's
            return "missing tensor", f"{name}, which its config asks for, is not in it"
    for name in sorted(tensors.keys() - wanted.keys()):
        return "unknown tensor", f"it has {name}, which its config does not ask for"
    for name in sorted(tensors):
        if tensors[name] != wanted[name]:
            told = f"{name} has the shape {list(tensors[name])}, and its config asks for {list(wanted[name])}"
            return "wrong shape", told
    return None
