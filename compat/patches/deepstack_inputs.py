"""Qwen3-VL's decoder takes features of pictures besides; speculators' replacement of `forward` does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from compat import source
from compat.patch import Patch, Probe, Sign, Symptom
from compat.replace import WORKER, check_wrap, worker_module, wrap

MODEL = "vllm.model_executor.models.qwen3_vl.Qwen3LLMModel.forward"
REPLACES = f"{WORKER}._patched_forward"
WRITTEN_FOR = (
    "d144710777c4a959d80d19e1d2c54e1d70902d0cd98ef060f83c4737588dc1e9",  # 0.3.0
    "b29ed80a92ab1fc4ebae8a40890e9adc8134b8a40793b709857e3b3be36f06f7",  # 0.4
)


def probe(site: Path) -> Probe:
    caller = source.find(site, REPLACES)
    model = source.find(site, MODEL)
    if "deepstack_input_embeds" not in source.parameters(model):
        return Probe(False, f"{model.place} takes no deepstack_input_embeds")
    if "deepstack_input_embeds" in source.parameters(caller):
        return Probe(False, f"{caller.place} takes deepstack_input_embeds")
    return Probe(True, f"{model.place} takes deepstack_input_embeds, which {caller.place} does not")


def apply() -> None:
    wrap(worker_module(), "_patched_forward", _without_pictures)


def verify() -> str:
    return check_wrap(worker_module(), "_patched_forward", __name__)


def _without_pictures(forward: Any) -> Any:
    def _patched_forward(self: Any, *args: Any, deepstack_input_embeds: Any = None, **given: Any) -> Any:
        if deepstack_input_embeds is not None and any(t.any() for t in deepstack_input_embeds.tensors.values()):
            raise RuntimeError(
                "a prompt has pictures, and speculators captures hidden states without their deepstack features; "
                "extract from text only"
            )
        return forward(self, *args, **given)

    return _patched_forward


PATCH = Patch(
    id="deepstack-inputs",
    drift="D19",
    title="Qwen3-VL's deepstack features have no way in",
    speculators=">=0.3.0,<0.5.0",
    vllm=">=0.11.0",
    architectures=("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"),
    symptoms=(
        Symptom(
            "TypeError", message=r"_patched_forward\(\) got an unexpected keyword argument 'deepstack_input_embeds'"
        ),
        Symptom("RuntimeError", message=r"a prompt has pictures, and speculators captures hidden states without"),
    ),
    cause="The worker extension's replacement of forward is narrower than Qwen3-VL's own. 0.3.0 fails; 0.4 swallows "
    "the argument, so that the states of a prompt with pictures are silently those of a prompt without.",
    mend="Accepts the argument where it is all zero, as it is for text, and refuses a prompt with pictures.",
    replaces=REPLACES,
    where="worker",
    after=WORKER,
    probe=probe,
    apply=apply,
    verify=verify,
    risk="Read from the sources, never run on a Qwen3-VL target.",
    written_for=WRITTEN_FOR,
    signs=(Sign("narrow-override", "forward", "deepstack_input_embeds"),),
)
