"""Run in a stage environment: a plain transformers forward in 32-bit floats, to compare the engines with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Reference:
    """The outputs of decoder layers, before the final norm, and the logits. `outputs` are indices of layers."""

    def __init__(self, target: str, outputs: Sequence[int]) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._torch = torch
        self.model: Any = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
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
