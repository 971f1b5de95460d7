"""speculators' own VllmHiddenStatesGenerator, with the checks that it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from compat.replace import generator_module
from pipeline.report import StageError
from pipeline.sample_files import Computed


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

        states = []
        for number, (prompt, captured) in enumerate(zip(prompts, self._run(prompts), strict=True)):
            rows = [int(layer.shape[0]) for layer in captured]
            if rows != [len(prompt)] * self._layers:
                raise StageError(
                    f"Prompt {number} of the batch has {min(rows, default=0)} rows of hidden states for {len(prompt)} "
                    f"tokens in {len(rows)} of {self._layers} layers; nothing of this batch is kept. Look at the "
                    "patches that are off."
                )
            states.append(torch.stack(captured, dim=1))
        return states

    queues = False

    def take(self, prompts: Sequence[Sequence[int]]) -> list[Computed]:
        return [Computed(states) for states in self.generate(prompts)]

    def captured(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """As `generate`, with whatever rows there are: a tensor [R, L, H] of each prompt."""
        import torch

        found = self._run(prompts)
        return [torch.stack([layer[: min(map(len, layers))] for layer in layers], dim=1) for layers in found]

    @property
    def step_tokens(self) -> int:
        """Tokens of the most prompts that the engine takes in one step."""
        return int(self._generator.vllm_config.scheduler_config.max_num_batched_tokens)

    def next_tokens(self, prompt: Sequence[int], first: int, count: int) -> Any:
        """Log-probabilities [count, V] of the tokens behind the positions from `first` on, by the engine's own logits.

        vLLM computes them for the last position of a prompt alone, so each position is a prompt of its own.
        """
        import torch

        executor = self._generator.executor
        executor.collective_rpc(_watch_logits)
        rows = []
        for end in range(first + 1, first + count + 1):
            self._run([prompt[:end]])
            rows.append(next(row for row in executor.collective_rpc(_last_logits) if row is not None))
        return torch.log_softmax(torch.stack(rows).float(), dim=1)

    def _run(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """The captured layers [R, H] of each prompt."""
        results = self._generator.generate([list(prompt) for prompt in prompts])
        return [result["hidden_states"] for result in results]


def _watch_logits(worker: Any) -> None:
    """In a worker: keeps the logits that the target computes last."""
    model = getattr(worker, "worker", worker).model_runner.model
    if hasattr(model, "last_logits"):
        return
    compute = model.compute_logits

    def compute_logits(*given: Any, **named: Any) -> Any:
        model.last_logits = compute(*given, **named)
        return model.last_logits

    model.last_logits, model.compute_logits = None, compute_logits


def _last_logits(worker: Any) -> Any:
    """In a worker: the logits [V] of the last prompt of the last batch; None where another rank has them."""
    logits = getattr(worker, "worker", worker).model_runner.model.last_logits
    return None if logits is None else logits[-1].cpu()


@contextmanager
def _model_dtype(module: Any, dtype: str) -> Iterator[None]:
    """Makes the generator's ModelConfig take a dtype; the generator itself always says `auto`."""
    config = module.ModelConfig
    module.ModelConfig = lambda **given: config(**{**given, "dtype": dtype})
    try:
        yield
    finally:
        module.ModelConfig = config
