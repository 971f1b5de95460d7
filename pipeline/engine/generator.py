"""speculators' own VllmHiddenStatesGenerator, with the checks that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from compat.replace import generator_module
from pipeline.report import StageError


class Engine:
    """A loaded target. Activate the driver's patches before this is made.

    `layers` are indices of layer outputs, rising. `max_length` is the longest prompt, in tokens. `dtype` is vLLM's.
    """

    def __init__(
        self, model: Path, layers: Sequence[int], max_length: int, tensor_parallel: int = 1, dtype: str = "auto"
    ) -> None:
        module = generator_module()
        self._layers = len(layers)
        with _model_dtype(module, dtype):
            self._generator: Any = module.VllmHiddenStatesGenerator(
                str(model),
                layer_ids=list(layers),
                max_model_len=max_length + 1,  # the generator cuts prompts to make room for the token it samples
                tensor_parallel_size=tensor_parallel,
            )

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._generator.executor.shutdown()

    def generate(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """Hidden states of each prompt: a tensor [S, L, H] with one row for each token, in the engine's dtype.

        Raises StageError when a prompt has not exactly one row a token in every layer.
        """
        import torch

        results = self._generator.generate([list(prompt) for prompt in prompts])
        states = []
        for number, (prompt, result) in enumerate(zip(prompts, results, strict=True)):
            rows = [int(layer.shape[0]) for layer in result["hidden_states"]]
            if rows != [len(prompt)] * self._layers:
                raise StageError(
                    f"Prompt {number} of the batch has {min(rows, default=0)} rows of hidden states for {len(prompt)} "
                    f"tokens in {len(rows)} of {self._layers} layers; nothing of this batch is kept. Look at the "
                    "patches that are off."
                )
            states.append(torch.stack(result["hidden_states"], dim=1))
        return states


@contextmanager
def _model_dtype(module: Any, dtype: str) -> Iterator[None]:
    """Makes the generator's ModelConfig take a dtype; the generator itself always says `auto`."""
    config = module.ModelConfig
    module.ModelConfig = lambda **given: config(**{**given, "dtype": dtype})
    try:
        yield
    finally:
        module.ModelConfig = config
