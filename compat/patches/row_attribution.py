"""speculators 0.3.0 cuts the captured rows by the order of its inputs; vLLM decides what runs, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Symptom
from compat.replace import GENERATOR, check_override, generator_module, subclass

REPLACES = f"{GENERATOR}.VllmHiddenStatesGenerator.generate"
WRITTEN_FOR = ("6800c30a41ded4457e14f5e3f11b51f7b576a7a30ce72c8c60de914c4d5c2431",)


class Ledger:
    """Which requests were added and in which order vLLM ran them, from one reply of captured states to the next."""

    def __init__(self) -> None:
        self.added: dict[str, int] = {}
        """Request id → number of prompt tokens, in the order of the inputs."""
        self.ran: list[tuple[str, int]] = []
        """(request id, tokens computed), in the order of the captured rows."""
        self._step: Mapping[str, int] | None = None

    def begin(self, scheduled: Mapping[str, int]) -> None:
        """A step was handed to the workers: request id → tokens."""
        self._settle()
        self._step = scheduled

    def finish(self, request_ids: Sequence[str]) -> None:
        """The step's result names its requests in the order of the batch, which is the order of its rows."""
        if self._step is not None:
            self.ran += [(request, self._step[request]) for request in request_ids]
            self._step = None

    def _settle(self) -> None:
        # With two-phase-execution off, a step's result never comes: then the order of scheduling must do.
        if self._step is not None:
            self.finish(list(self._step))

    def order(self, rows: int) -> list[tuple[int, int]]:
        """[start, end) of each request's rows, in the order of the inputs; forgets the batch.

        Raises RuntimeError unless every request ran whole, once, and nothing else was captured.
        """
        self._settle()
        added, ran = self.added, self.ran
        self.added, self.ran = {}, []
        spans: dict[str, tuple[int, int]] = {}
        start = 0
        for request, tokens in ran:
            if tokens != added.get(request):
                raise RuntimeError(
                    f"vLLM ran {tokens} of the {added.get(request)} tokens of request {request} in one step, "
                    "so its hidden states are not whole"
                )
            spans[request] = (start, start + tokens)
            start += tokens
        missing = [request for request in added if request not in spans]
        if missing:
            raise RuntimeError(
                f"vLLM never ran {len(missing)} of {len(added)} requests (first {missing[0]}, {added[missing[0]]} "
                "tokens): its KV cache is too small for the prompt; raise VLLM_CPU_KVCACHE_SPACE"
            )
        if rows != start or len(ran) != len(spans):
            raise RuntimeError(f"the workers captured {rows} rows for {start} tokens")
        return [spans[request] for request in added]


def probe(site: Path) -> Probe:
    caller = source.find(site, REPLACES)
    replies = source.calls(caller, "self.executor.collective_rpc")
    if "h[offset : offset + seq_len]" not in caller.text or not replies:
        return Probe(False, f"{caller.place} does not cut the captured rows by the order of its inputs")
    return Probe(True, f"{caller.at(replies[-1])} takes the captured rows and cuts them by input order, unchecked")


def apply() -> None:
    module, ledger = generator_module(), Ledger()
    subclass(module, "Scheduler", lambda base: _scheduler(base, ledger))
    subclass(module, "MultiprocExecutor", lambda base: _executor(base, ledger))


def verify() -> str:
    module = generator_module()
    return check_override(module.Scheduler, "add_request", __name__) or check_override(
        module.MultiprocExecutor, "collective_rpc", __name__
    )


def _scheduler(base: Any, ledger: Ledger) -> Mapping[str, Any]:
    def add_request(self: Any, request: Any) -> None:
        ledger.added[request.request_id] = request.num_prompt_tokens
        base.add_request(self, request)

    return {"add_request": add_request}


def _executor(base: Any, ledger: Ledger) -> Mapping[str, Any]:
    # The result arrives through either method, depending on whether two-phase-execution is below, above or off.
    def execute_model(self: Any, scheduler_output: Any, *args: Any, **given: Any) -> Any:
        ledger.begin(dict(scheduler_output.num_scheduled_tokens))
        result = base.execute_model(self, scheduler_output, *args, **given)
        if result is not None:
            ledger.finish(result.req_ids)
        return result

    def sample_tokens(self: Any, *args: Any, **given: Any) -> Any:
        result = base.sample_tokens(self, *args, **given)
        ledger.finish(result.req_ids)
        return result

    def collective_rpc(self: Any, method: Any, *args: Any, **given: Any) -> Any:
        reply = base.collective_rpc(self, method, *args, **given)
        return _in_input_order(reply, ledger) if method == "_get_captured_states" and reply else reply

    return {"execute_model": execute_model, "sample_tokens": sample_tokens, "collective_rpc": collective_rpc}


def _in_input_order(reply: Any, ledger: Ledger) -> Any:
    if isinstance(reply[0], list):  # reply-rank, below this one, has put the layers into a list of one
        return [_in_input_order(reply[0], ledger)]
    import torch

    spans = ledger.order(int(reply[0].shape[0]))
    if all(end == following for (_, end), (following, _) in pairwise(spans)):
        return reply
    return [torch.cat([layer[start:end] for start, end in spans]) for layer in reply]


PATCH = Patch(
    id="row-attribution",
    drift="D18",
    title="Captured rows are given to samples by input order, unchecked",
    speculators="==0.3.0",
    vllm=">=0.11.0",
    symptoms=(
        Symptom("RuntimeError", message=r"Failed to capture hidden states from worker", innermost="generate"),
        Symptom("RuntimeError", message=r"vLLM never ran \d+ of \d+ requests"),
    ),
    cause="The generator cuts the captured rows by cumulative prompt length, in the order of its inputs, and never "
    "asks which requests vLLM ran, in which order, or whether whole. A request that is left waiting, cut or moved "
    "gives its rows to another sample.",
    mend="Follows the request ids that vLLM reports for each step, gives every sample its own rows, and raises when a "
    "request did not run whole.",
    replaces=REPLACES,
    where="driver",
    after=GENERATOR,
    probe=probe,
    apply=apply,
    verify=verify,
    risk="On vLLM 0.16.0 whole, uncached prompts run in input order anyway, so there this only guards.",
    gate="attribution",
    references=("vllm-project/speculators#279", "vllm-project/speculators#283", "vllm-project/speculators#365"),
    silent=True,
    written_for=WRITTEN_FOR,
)
