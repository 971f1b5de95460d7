"""A draft model served by vLLM in this process, and what its counters say of it.

The engine counts the accepted tokens of every round of every request (`per_request_spec_decode_metrics`), and over all
requests; the two must agree.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pipeline.draft.acceptance import Acceptance, Answer, total
from pipeline.report import StageError

_COUNTERS = "vllm:spec_decode_num_"


def margin(proposed: int) -> int:
    """Tokens of room behind the longest answer. Where a sequence with what is proposed, and what would be next, comes
    near the engine's greatest length, it proposes nothing more for the whole batch."""
    return 3 * (proposed + 1)


class Plain:
    """vLLM with a target alone. Patches find their processes by themselves, through `compat/plugin`.

    `max_length` is the longest prompt with its answer, in tokens.
    """

    def __init__(
        self, target: Path, max_length: int, *, dtype: str = "float32", tensor_parallel: int = 1, **more: Any
    ) -> None:
        import torch
        from vllm import LLM

        self._llm: Any = LLM(
            model=str(target),
            dtype=dtype,
            tensor_parallel_size=tensor_parallel,
            max_model_len=max_length,
            trust_remote_code=True,
            enforce_eager=not torch.cuda.is_available(),
            enable_prefix_caching=False,
            disable_log_stats=False,  # they are the counters
            **more,
        )

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._llm.llm_engine.engine_core.shutdown()

    def answer(self, prompts: Sequence[Sequence[int]], max_tokens: int, ends: Collection[int]) -> list[Answer]:
        """Greedy answers to prompts of token ids, each at most `max_tokens` long or up to one of `ends`."""
        from vllm import SamplingParams

        greedy = SamplingParams(
            temperature=0, max_tokens=max_tokens, stop_token_ids=sorted(ends), ignore_eos=True, detokenize=False
        )
        outputs = self._llm.generate([{"prompt_token_ids": list(p)} for p in prompts], greedy, use_tqdm=False)
        return [_answer(output.outputs[0]) for output in outputs]


class Engine(Plain):
    """vLLM with a target and its draft model.

    `draft` is a folder that vLLM serves by itself: its config names the target. With a `target`, it is served for
    that one, wherever its config says that it lies; a draft model in plain form needs it.
    """

    def __init__(
        self,
        draft: Path,
        proposed: int,
        max_length: int,
        *,
        target: Path | None = None,
        dtype: str = "float32",
        tensor_parallel: int = 1,
    ) -> None:
        speculative: dict[str, Any] = {"num_speculative_tokens": proposed}
        if target is not None:
            speculative |= {"method": "eagle3", "model": str(draft)}
        self.proposed = proposed
        super().__init__(
            target or draft,
            max_length + margin(proposed),
            dtype=dtype,
            tensor_parallel=tensor_parallel,
            speculative_config=speculative,
            per_request_spec_decode_metrics="detailed",
        )

    def answer(self, prompts: Sequence[Sequence[int]], max_tokens: int, ends: Collection[int]) -> list[Answer]:
        """As for a target alone, with the accepted tokens of each round.

        Raises StageError when vLLM's counters over all requests are not the sum of what it counts of each.
        """
        before = self._counted()
        answers = super().answer(prompts, max_tokens, ends)
        after, found = self._counted(), total(answers, self.proposed)
        counted = Acceptance(
            after.rounds - before.rounds,
            after.accepted - before.accepted,
            tuple(a - b for a, b in zip(after.per_position, before.per_position, strict=True)),
        )
        if counted != found:
            raise StageError(f"vLLM's counters say {counted}, and what it counts of each request adds up to {found}.")
        return answers

    def _counted(self) -> Acceptance:
        values = {
            metric.name.removeprefix(_COUNTERS): getattr(metric, "value", getattr(metric, "values", None))
            for metric in self._llm.get_metrics()
            if metric.name.startswith(_COUNTERS)
        }
        places = values.get("accepted_tokens_per_pos") or [0] * self.proposed
        return Acceptance(
            int(values.get("drafts") or 0),
            int(values.get("accepted_tokens") or 0),
            tuple(int(count) for count in places),
        )


def _answer(output: Any) -> Answer:
    metrics = output.spec_decode_metrics
    return Answer(tuple(output.token_ids), tuple(metrics.per_step_accepted) if metrics else ())
