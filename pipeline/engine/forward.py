"""A plain forward of transformers, one prompt at a time: for hosts without vLLM, and what the others are held to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pipeline import language_model
from pipeline.report import StageError
from pipeline.sample_files import Computed


class Engine:
    """A loaded target, on a GPU when there is one.

    `layers` are indices of layer outputs, rising; -1 is what goes into the first layer. `max_length` is not needed:
    nothing is set aside for a prompt.
    """

    def __init__(
        self, target: Path, layers: Sequence[int], max_length: int, tensor_parallel: int = 1, dtype: str = "auto"
    ) -> None:
        import torch

        if tensor_parallel != 1:
            raise StageError(
                f"run.tensor_parallel is {tensor_parallel}, and the backend transformers runs in one process; set it "
                "to 1, or use an environment with vLLM."
            )
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._model = language_model.load(target, dtype).to(device).eval()
        self._captured: dict[int, Any] = {}
        self._outputs = tuple(layers)
        decoder = _decoder(self._model, target)
        self._hooks = [decoder[index].register_forward_hook(self._keep(index)) for index in self._outputs if index >= 0]
        if -1 in self._outputs:
            self._hooks.append(decoder[0].register_forward_pre_hook(self._keep_input, with_kwargs=True))

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()

    def generate(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """Hidden states of each prompt: a tensor [S, L, H] with one row for each token, on the CPU."""
        import torch

        states = []
        for prompt in prompts:
            with torch.no_grad():
                self._model(torch.tensor([list(prompt)], device=self._model.device), use_cache=False)
            states.append(torch.stack([self._captured.pop(index) for index in self._outputs], dim=1).cpu())
        return states

    queues = False

    def take(self, prompts: Sequence[Sequence[int]]) -> list[Computed]:
        return [Computed(states) for states in self.generate(prompts)]

    captured = generate

    step_tokens = 0
    """No limit of a step: every prompt is a step of its own."""

    def next_tokens(self, prompt: Sequence[int], first: int, count: int) -> Any:
        """Log-probabilities [count, V] of the tokens behind the positions from `first` on."""
        import torch

        with torch.no_grad():
            ids = torch.tensor([list(prompt)], device=self._model.device)
            logits = self._model(ids, use_cache=False).logits[0, first : first + count]
        self._captured.clear()
        return torch.log_softmax(logits.float(), dim=1).cpu()

    def _keep(self, index: int) -> Any:
        def hook(module: object, arguments: object, output: Any) -> None:
            self._captured[index] = (output[0] if isinstance(output, tuple) else output)[0]

        return hook

    def _keep_input(self, module: object, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._captured[-1] = (arguments[0] if arguments else named["hidden_states"])[0]


def _decoder(model: Any, target: Path) -> Any:
    """The list of decoder layers: below a wrapper, too, such as a vision model's."""
    queue = [model]
    while queue:
        module = queue.pop(0)
        layers = getattr(module, "layers", None)
        if layers is not None and len(layers) and hasattr(layers[0], "self_attn"):
            return layers
        queue += [getattr(module, name) for name in ("model", "language_model") if hasattr(module, name)]
    raise StageError(
        f"The model in {target} has no decoder layers that transformers shows; use an environment of vLLM."
    )
