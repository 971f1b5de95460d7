"""Stage `prepare`: conversations → token ids and loss mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline import conversations, dataset, products, settings
from pipeline.corpus import Message
from pipeline.dataset import Sample
from pipeline.masking import MaskError, Render, encode
from pipeline.report import Pace, StageError, artifact, metric, note


def main() -> None:
    wanted = settings.of_attempt()
    render = _renderer(str(products.target(wanted)))
    rows = conversations.read(wanted.conversations, wanted.samples)
    if len(rows) < wanted.samples:
        note(f"{wanted.conversations} holds {len(rows)} conversations; run.samples asks for {wanted.samples}.")
    samples: list[Sample] = []
    dropped = cut = 0
    pace = Pace("tokenising conversations", len(rows), "samples")
    for place, messages in rows:
        try:
            ids, mask = encode(messages, render)
        except MaskError as error:
            raise StageError(f"{place} cannot be used: {error}; correct it or the target's chat template.") from error
        cut += len(ids) > wanted.max_length
        ids, mask = ids[: wanted.max_length], mask[: wanted.max_length]
        if any(mask):
            samples.append(Sample(len(samples), tuple(ids), tuple(mask)))
        else:
            dropped += 1
        pace.step()
    if not samples:
        raise StageError(
            f"No conversation has an assistant token within run.max_length {wanted.max_length}; raise run.max_length."
        )
    if cut:
        note(f"{cut} samples were cut to {wanted.max_length} tokens; {dropped} had no assistant token left.")
    folder = products.dataset()
    dataset.write(
        folder,
        samples,
        {
            "conversations": wanted.conversations,
            "target": str(products.target(wanted)),
            "max_length": wanted.max_length,
            "samples": len(samples),
            "dropped": dropped,
        },
    )
    metric("samples", len(samples))
    metric("tokens", sum(len(s.token_ids) for s in samples))
    metric("loss_tokens", sum(sum(s.loss_mask) for s in samples))
    metric("longest", max(len(s.token_ids) for s in samples))
    metric("dropped", dropped)
    artifact(folder / dataset.SAMPLES)


def _renderer(target: str) -> Render:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(target, trust_remote_code=True)
    if not tokenizer.chat_template:
        raise StageError(f"The tokenizer in {target} has no chat template; add one to its tokenizer_config.json.")

    def render(messages: Sequence[Message], prompt: bool) -> list[int]:
        if not messages and not prompt:
            return []
        ids = tokenizer.apply_chat_template(list(messages), add_generation_prompt=prompt, return_dict=False)
        return [int(i) for i in ids]

    return render
