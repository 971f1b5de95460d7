"""Run in a stage environment: a plain transformers forward in 32-bit floats, to compare the engines with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Reference:
    """The outputs of decoder layers, before the final norm, and the logits. `outputs` are indices of layers.

    Of Kimi-K2.5's wrapper, which no transformers class loads, it takes the language model inside.
    """

    def __init__(self, target: str, outputs: Sequence[int]) -> None:
        import torch

        self._torch = torch
        self.model = _load(Path(target)).eval()
        self._outputs = tuple(outputs)
        self._captured: dict[int, Any] = {}
        for index in self._outputs:
            self.model.model.layers[index].register_forward_hook(self._keep(index))

    def _keep(self, index: int) -> Any:
        def hook(module: object, arguments: object, output: Any) -> None:
            self._captured[index] = output[0] if isinstance(output, tuple) else output

        return hook

    def forward(self, prompt: Sequence[int]) -> tuple[Any, Any]:
        """(states [S, L, H], logits [S, V]) of one prompt."""
        with self._torch.no_grad():
            logits = self.model(self._torch.tensor([list(prompt)])).logits[0]
        hidden = self.model.config.hidden_size
        states = [self._captured[i].reshape(-1, hidden) for i in self._outputs]
        return self._torch.stack(states, dim=1), logits


def _load(target: Path) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    if "text_config" not in config:
        return AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
    from safetensors.torch import load_file

    from pipeline.targets.kimi_k25 import PREFIX

    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config["text_config"]), dtype=torch.float32)
    named = [item for path in sorted(target.glob("*.safetensors")) for item in load_file(path).items()]
    model.load_state_dict({name[len(PREFIX) :]: t.float() for name, t in named if name.startswith(PREFIX)})
    return model
