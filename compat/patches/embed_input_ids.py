"""vLLM's models renamed get_input_embeddings; speculators' replacement of `forward` still calls the old name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom
from compat.replace import WORKER, check_wrap, text_model, worker_module, wrap

CALLER = f"{WORKER}._patched_forward"
MODEL = "vllm.model_executor.models.llama.LlamaModel"
REPLACES = f"{WORKER}.HiddenStatesWorkerExtension._setup_hidden_states_capture"
WRITTEN_FOR = ("68b84bc2c4d45d9af094247212c0c95bcaec0b01f14660378b96548e57b15fc0",)


def probe(site: Path) -> Probe:
    caller = source.find(site, CALLER)
    model = source.find(site, MODEL)
    old = source.calls(caller, "self.get_input_embeddings")
    if not old:
        return Probe(False, f"{caller.place} does not call get_input_embeddings")
    names = {getattr(member, "name", "") for member in getattr(model.node, "body", ())}
    if "get_input_embeddings" in names:
        return Probe(False, f"{model.place}: LlamaModel still has get_input_embeddings")
    return Probe(
        True, f"{caller.at(old[0])} calls get_input_embeddings, which {model.place} (LlamaModel) does not have"
    )


def apply() -> None:
    wrap(worker_module().HiddenStatesWorkerExtension, "_setup_hidden_states_capture", _with_old_name)


def verify() -> str:
    return check_wrap(worker_module().HiddenStatesWorkerExtension, "_setup_hidden_states_capture", __name__)


def _with_old_name(setup: Any) -> Any:
    def _setup_hidden_states_capture(self: Any, layer_ids: list[int]) -> None:
        setup(self, layer_ids)
        decoder = text_model(self.model_runner.model).model
        if not hasattr(decoder, "get_input_embeddings"):
            decoder.get_input_embeddings = decoder.embed_input_ids

    return _setup_hidden_states_capture


PATCH = Patch(
    id="embed-input-ids",
    drift="D04",
    title="get_input_embeddings became embed_input_ids",
    speculators="==0.3.0",
    vllm=">=0.11.1",
    symptoms=(
        Symptom(
            "AttributeError",
            message=r"'\w+' object has no attribute 'get_input_embeddings'",
            functions=("_patched_forward",),
        ),
    ),
    cause="vLLM 0.11.1 renamed get_input_embeddings to embed_input_ids in every model; the worker extension's "
    "replacement of forward still calls the old name, at the warm-up already.",
    mend="Gives the decoder its old name back, in each worker, once the capture is set up.",
    replaces=REPLACES,
    where="worker",
    after=WORKER,
    probe=probe,
    apply=apply,
    verify=verify,
    story="Named there as the embedding method, and right. It fails at the warm-up, for DeepSeek types too.",
    references=("vllm-project/vllm#27583", "vllm-project/speculators#225"),
    written_for=WRITTEN_FOR,
    signs=(Sign("missing-attribute", "", "get_input_embeddings"),),
)
