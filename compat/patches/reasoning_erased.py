"""Kimi's chat template renders the last assistant turn of a conversation without its reasoning."""

from __future__ import annotations

from pathlib import Path

from compat import source
from compat.patch import Patch, Probe

CALLER = "speculators.data_generation.preprocessing._preprocess_batch"


def probe(site: Path) -> Probe:
    caller = source.find(site, CALLER)
    renders = source.calls(caller, "tokenizer.apply_chat_template")
    if not renders:
        return Probe(False, f"{caller.place} does not render conversations by the chat template")
    return Probe(True, f"{caller.at(renders[0])} renders conversations as the template has it, reasoning or not")


PATCH = Patch(
    id="reasoning-erased",
    drift="",
    title="The chat template erases the reasoning to be learnt",
    speculators=">=0.3.0,<0.5.0",
    vllm=">=0.11.0",
    architectures=("KimiK25ForConditionalGeneration",),
    cause="Kimi-K2.5's template renders every turn up to and with the last assistant turn with an empty "
    "<think></think>. A training conversation ends with that turn, so all reasoning is gone from what the draft model "
    "learns, while it will have to guess reasoning when served. 0.3.0's pattern for assistant turns has the empty "
    "pair baked in besides.",
    mend="Let the stage `prepare` render the conversations: it has the last turn's reasoning as the model says it "
    "and compares the masked tokens with the text. speculators' own preprocessing needs it in the text itself.",
    probe=probe,
    replaces=CALLER,
    silent=True,
    gate="loss-mask",
    references=("vllm-project/speculators#774", "vllm-project/speculators#943"),
)
