"""The CPU build's rotary kernel steps from token to token by the stride of a head, which DeepSeek types expose."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe

ID = "cpu-rotary"
MODULE = "vllm.model_executor.layers.rotary_embedding.base"
REPLACES = f"{MODULE}.RotaryEmbedding.forward_cpu"
CALLER = "vllm.model_executor.models.deepseek_v2.DeepseekV2Attention.forward"
WRITTEN_FOR = (
    "8edd06cd8f173bc3feedaa4947c084ebd92b43fd6dbff5a84a7d42db122d93b8",
    "cf7d01750162ba03bcb87f80a4c2c34ba77cb99206c2e703c2e14944ff63e84c",
)


def probe(site: Path) -> Probe:
    kernel = source.find(site, REPLACES)
    caller = source.find(site, CALLER)
    into = source.calls(kernel, "ops.rotary_embedding")
    turned = source.calls(caller, "self.rotary_emb")
    if not into:
        return Probe(False, f"{kernel.place} does not call the CPU kernel")
    if not turned:
        return Probe(False, f"{caller.place} does not rotate its heads through RotaryEmbedding")
    return Probe(
        True,
        f"{caller.at(turned[0])} passes [tokens, heads, size] views, which {kernel.at(into[0])} hands to a kernel for "
        "[tokens, heads x size]",
    )


def apply() -> None:
    cls = _class()
    kernel = cls.forward_cpu

    def forward_cpu(self: Any, positions: Any, query: Any, key: Any = None) -> Any:
        flat = query.dim() == 2 and (key is None or key.dim() == 2)
        return (kernel if flat else cls.forward_native)(self, positions, query, key)

    cls.forward_cpu = forward_cpu


def verify() -> str:
    """Rotates two heads of two tokens both ways: they must agree."""
    import torch

    rotary = _class().__new__(_class())  # its constructor asks for vLLM's configuration, which is not there yet
    torch.nn.Module.__init__(rotary)
    rotary.head_size, rotary.rotary_dim, rotary.is_neox_style = 4, 4, False
    rotary.cos_sin_cache = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.6, 0.8, 0.8, 0.6]])
    heads = torch.arange(16, dtype=torch.float32).reshape(2, 2, 4)
    wanted, _ = rotary.forward_native(torch.arange(2), heads.clone(), heads.clone())
    found, _ = rotary.forward_cpu(torch.arange(2), heads.clone(), heads.clone())
    if not torch.equal(wanted, found):
        return "the rotation of [tokens, heads, size] views still differs from PyTorch's own"
    return ""


def _class() -> Any:
    return importlib.import_module(MODULE).RotaryEmbedding


PATCH = Patch(
    id=ID,
    drift="D30",
    title="The CPU build's rotary kernel is wrong for DeepSeek types",
    speculators=">=0.3.0",
    vllm=">=0.14.0",
    cause="The CPU kernel behind ops.rotary_embedding takes the stride of the last dimension but one for the distance "
    "between tokens. That holds for [tokens, heads x size]; the DeepSeek types (with MLA and without) pass views of "
    "[tokens, heads, size], so most heads are rotated by the position of another token, or not at all. Hidden "
    "states then differ from transformers by 0.2 to 1.4, and nothing is raised. Targets whose config asks for YaRN "
    "have a rotary class of their own that never reaches the kernel.",
    mend="Rotates [tokens, heads, size] views with the PyTorch implementation; flat tensors still take the kernel.",
    probe=probe,
    apply=apply,
    verify=verify,
    where="worker",
    after=MODULE,
    replaces=REPLACES,
    written_for=WRITTEN_FOR,
    silent=True,
    gate="rotary",
    architectures=("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "KimiK25ForConditionalGeneration"),
    cpu_only=True,
    risk="The PyTorch rotation is slower than the kernel; only CPU builds and the DeepSeek types take it. Before vLLM "
    "0.14.0 the CPU build reached the same kernel by another way, which this does not mend.",
)
