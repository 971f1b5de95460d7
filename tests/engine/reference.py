"""Run in a stage environment: a plain transformers forward in 32-bit floats, to compare the engines with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Reference:
    """The outputs of decoder layers, before the final norm, and the logits. `outputs` are indices of layers.

    Of Kimi-K2.5's wrapper it takes the language model inside where transformers has no class for the whole.
    """

    def __init__(self, target: str, outputs: Sequence[int]) -> None:
        import torch

        self._torch = torch
        self.model = _load(Path(target)).eval()
        inner = getattr(self.model.model, "language_model", self.model.model)
        self.config = inner.config
        self.layers = inner.layers
        self.outputs = tuple(outputs)
        self._captured: dict[int, Any] = {}
        for index in self.outputs:
            self.layers[index].register_forward_hook(self._keep(index))

    def _keep(self, index: int) -> Any:
        def hook(module: object, arguments: object, output: Any) -> None:
            self._captured[index] = output[0] if isinstance(output, tuple) else output

        return hook

    def forward(self, prompt: Sequence[int]) -> tuple[Any, Any]:
        """(states [S, L, H], logits [S, V]) of one prompt."""
        with self._torch.no_grad():
            logits = self.model(self._torch.tensor([list(prompt)])).logits[0]
        states = [self._captured[i].reshape(-1, self.config.hidden_size) for i in self.outputs]
        return self._torch.stack(states, dim=1), logits


def _load(target: Path) -> Any:
    import torch
    import transformers

    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    if "text_config" not in config:
        return transformers.AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
    whole = getattr(transformers, "Kimi_K25ForConditionalGeneration", None)
    if whole is not None:
        return whole.from_pretrained(target, dtype=torch.float32)
    from safetensors.torch import load_file

    from pipeline.targets.kimi_k25 import PREFIX

    text = transformers.AutoConfig.for_model(**config["text_config"])
    model = transformers.AutoModelForCausalLM.from_config(text, dtype=torch.float32)
    named = [item for path in sorted(target.glob("*.safetensors")) for item in load_file(path).items()]
    model.load_state_dict({name[len(PREFIX) :]: t.float() for name, t in named if name.startswith(PREFIX)})
    return model
