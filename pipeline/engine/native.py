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
        from vllm import SamplingParams

        once = SamplingParams(max_tokens=1, temperature=0, detokenize=False)
        outputs = self._llm.generate([{"prompt_token_ids": list(p)} for p in prompts], once, use_tqdm=False)
        return [self._states(number, prompt, outputs[number]) for number, prompt in enumerate(prompts)]

    def _states(self, number: int, prompt: Sequence[int], output: Any) -> Any:
        from vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector import (
            cleanup_hidden_states,
            load_hidden_states,
        )

        path = (output.kv_transfer_params or {}).get("hidden_states_path")
        if path is None:
            raise StageError(f"vLLM wrote no hidden states for prompt {number} of the batch; look at the log above.")
        try:
            found = load_hidden_states(path)
        except FileNotFoundError as error:
            raise StageError(
                f"vLLM ended before it wrote the hidden states of prompt {number} of the batch; the reason is above."
            ) from error
        cleanup_hidden_states(path)
        states, tokens = found["hidden_states"], found["token_ids"].tolist()
        if tokens != list(prompt) or tuple(states.shape[:2]) != (len(prompt), self._layers):
            raise StageError(
                f"Prompt {number} of the batch has {len(prompt)} tokens, and vLLM wrote hidden states of shape "
                f"{tuple(states.shape)} for {len(tokens)} tokens; nothing of this batch is kept."
            )
        return states
