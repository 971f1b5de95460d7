"""vLLM's own extraction (0.18 and later): hidden states kept in its KV cache and written out by its connector.

The method `extract_hidden_states` adds a layer without weights that caches the wanted layers' inputs for every token,
so neither chunked prefill nor the order of the batch can lose a row; `ExampleHiddenStatesConnector` writes one file for
each request.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pipeline.report import StageError
from pipeline.sample_files import Written

TOLD = 256
"""Likeliest tokens of a position that the engine tells of."""


class Engine:
    """A loaded target. vLLM's processes find the patches by themselves, through `compat/plugin`.

    `layers` are vLLM's ids, rising: id k is the input of layer k, and the number of layers is the last one's output,
    before the final norm. `max_length` is the longest prompt, in tokens. `scratch` is a folder for the files between
    vLLM and here.
    """

    def __init__(
        self,
        model: Path,
        layers: Sequence[int],
        max_length: int,
        tensor_parallel: int = 1,
        dtype: str = "auto",
        scratch: Path | None = None,
    ) -> None:
        import torch
        from vllm import LLM

        self._layers = len(layers)
        self._scratch = tempfile.TemporaryDirectory(prefix="hidden-states-", dir=scratch)
        self._llm: Any = LLM(
            model=str(model),
            dtype=dtype,
            tensor_parallel_size=tensor_parallel,
            max_model_len=max_length + 1,  # room for the token that it samples
            trust_remote_code=True,
            enforce_eager=True,
            enable_prefix_caching=False,  # every token of every prompt is computed
            disable_log_stats=True,
            max_logprobs=TOLD,
            # Where the processor has AMX, vLLM prefers an MLA kernel that takes no 32-bit floats.
            attention_config={} if torch.cuda.is_available() else {"backend": "CPU_MLA"},
            speculative_config={
                "method": "extract_hidden_states",
                "num_speculative_tokens": 1,
                "draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": list(layers)}},
            },
            kv_transfer_config={
                "kv_connector": "ExampleHiddenStatesConnector",
                "kv_role": "kv_producer",
                "kv_connector_extra_config": {"shared_storage_path": self._scratch.name},
            },
        )

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._llm.llm_engine.engine_core.shutdown()
        self._scratch.cleanup()

    def generate(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """Hidden states of each prompt: a tensor [S, L, H] with one row for each token, in the engine's dtype.

        Raises StageError when the file of a prompt holds other tokens, or other rows, than the prompt.
        """
        return [taken.load(prompt) for taken, prompt in zip(self.take(prompts), prompts, strict=True)]

    queues = False

    def take(self, prompts: Sequence[Sequence[int]]) -> list[Written]:
        """The files of the prompts' states; vLLM may still be writing them."""
        return [self._written(number, output) for number, output in enumerate(self._run(prompts))]

    def captured(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """As `generate`, with whatever rows there are: a tensor [R, L, H] of each prompt."""
        return [taken.load() for taken in self.take(prompts)]

    @property
    def step_tokens(self) -> int:
        """Tokens of the most prompts that the engine takes in one step."""
        return int(self._llm.llm_engine.vllm_config.scheduler_config.max_num_batched_tokens)

    def next_tokens(self, prompt: Sequence[int], first: int, count: int) -> Any:
        """Log-probabilities [count, V] of the tokens behind the positions from `first` on, by the engine's own logits;
        -inf for those that are not among the likeliest. `prompt` has a token more than the last of these positions."""
        import torch

        vocabulary = int(self._llm.llm_engine.model_config.get_vocab_size())
        (output,) = self._run([prompt[: first + count + 1]], prompt_logprobs=min(TOLD, vocabulary))
        self._written(0, output).load()
        found = torch.full((count, vocabulary), float("-inf"))
        for row, told in enumerate(output.prompt_logprobs[first + 1 :]):  # what stands at i is of the token i
            found[row, list(told)] = torch.tensor([one.logprob for one in told.values()])
        return found

    def _run(self, prompts: Sequence[Sequence[int]], **more: Any) -> list[Any]:
        from vllm import SamplingParams

        once = SamplingParams(max_tokens=1, temperature=0, detokenize=False, **more)
        outputs: list[Any] = self._llm.generate([{"prompt_token_ids": list(p)} for p in prompts], once, use_tqdm=False)
        return outputs

    def _written(self, number: int, output: Any) -> Written:
        path = (output.kv_transfer_params or {}).get("hidden_states_path")
        if path is None:
            raise StageError(f"vLLM wrote no hidden states for prompt {number} of the batch; look at the log above.")
        return Written(Path(path), self._layers)
