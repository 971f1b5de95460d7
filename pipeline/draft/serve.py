"""A draft model served by vLLM in this process, and what its counters say of it.

The engine counts the accepted tokens of every round of every request (`per_request_spec_decode_metrics`), and over all
requests; the two must agree. Releases that count over all requests alone are asked one prompt at a time, and their
rounds are read off what they say in each step.
"""

from __future__ import annotations

import math
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

    `max_length` is the longest prompt with its answer, in tokens. `one_by_one` asks one prompt at a time, as a draft
    model's engine does that it is to be compared with.
    """

    def __init__(
        self,
        target: Path,
        max_length: int,
        *,
        dtype: str = "float32",
        tensor_parallel: int = 1,
        one_by_one: bool = False,
        **more: Any,
    ) -> None:
        import torch
        from vllm import LLM

        self.one_by_one = one_by_one
        self._llm: Any = LLM(
            model=str(target),
            dtype=dtype,
            tensor_parallel_size=tensor_parallel,
            max_model_len=max_length,
            trust_remote_code=True,
            enforce_eager=not torch.cuda.is_available(),
            enable_prefix_caching=False,
            disable_log_stats=False,  # they are the counters
            **_beside_this_process(),
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
        greedy = _greedy(max_tokens, ends)
        found: list[Answer] = []
        for together in [[prompt] for prompt in prompts] if self.one_by_one else [prompts]:
            outputs = self._llm.generate([{"prompt_token_ids": list(p)} for p in together], greedy, use_tqdm=False)
            found += [_answer(output.outputs[0]) for output in outputs]
        return found


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
        self._asked = 0
        counts = _counts_each_request()
        super().__init__(
            target or draft,
            max_length + margin(proposed),
            dtype=dtype,
            tensor_parallel=tensor_parallel,
            one_by_one=not counts,
            speculative_config=speculative,
            **({"per_request_spec_decode_metrics": "detailed"} if counts else {}),
        )

    def answer(self, prompts: Sequence[Sequence[int]], max_tokens: int, ends: Collection[int]) -> list[Answer]:
        """As for a target alone, with the accepted tokens of each round.

        Raises StageError when vLLM's counters over all requests are not the sum of what it counts of each.
        """
        before = self._counted()
        if self.one_by_one:
            answers = [self._by_steps(prompt, _greedy(max_tokens, ends)) for prompt in prompts]
        else:
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

    def _by_steps(self, prompt: Sequence[int], asked: Any) -> Answer:
        """A step after the first says what was accepted, and a token of the target's own. The last one may be cut off,
        at the end of the answer: it has what the counters have beyond the others."""
        from vllm.sampling_params import RequestOutputKind

        asked.output_kind = RequestOutputKind.DELTA
        before, engine = self._counted(), self._llm.llm_engine
        self._asked += 1
        engine.add_request(f"step-by-step-{self._asked}", {"prompt_token_ids": list(prompt)}, asked)
        said: list[tuple[int, ...]] = []
        while engine.has_unfinished_requests():
            said += [tuple(output.outputs[0].token_ids) for output in engine.step()]
        said = [tokens for tokens in said if tokens]
        accepted = [len(tokens) - 1 for tokens in said[1:]]
        if accepted:
            accepted[-1] = self._counted().accepted - before.accepted - sum(accepted[:-1])
        return Answer(tuple(token for tokens in said for token in tokens), tuple(accepted))

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


def memory_share(usual: float, held: int, total: int) -> float:
    """The share of a GPU of `total` bytes that an engine may take beside a process that holds `held` of them."""
    return math.floor(1000 * (usual - held / total)) / 1000


def _beside_this_process() -> dict[str, float]:
    """vLLM wants its usual share of the whole GPU to be free when it starts, and what answers are simulated with is
    on that GPU meanwhile."""
    import torch
    from vllm.engine.arg_utils import EngineArgs

    torch.cuda.empty_cache()  # neither of the two makes anything ready that was not
    held = torch.cuda.memory_reserved()
    if not held:
        return {}
    total = torch.cuda.get_device_properties(0).total_memory
    return {"gpu_memory_utilization": memory_share(EngineArgs.gpu_memory_utilization, held, total)}


def _greedy(max_tokens: int, ends: Collection[int]) -> Any:
    from vllm import SamplingParams

    return SamplingParams(
        temperature=0, max_tokens=max_tokens, stop_token_ids=sorted(ends), ignore_eos=True, detokenize=False
    )


def _counts_each_request() -> bool:
    """Whether this vLLM counts the accepted tokens of each request."""
    from vllm.engine.arg_utils import EngineArgs

    return "per_request_spec_decode_metrics" in EngineArgs.__dataclass_fields__


def _answer(output: Any) -> Answer:
    metrics = getattr(output, "spec_decode_metrics", None)
    return Answer(tuple(output.token_ids), tuple(metrics.per_step_accepted) if metrics else ())
