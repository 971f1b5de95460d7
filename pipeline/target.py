"""Stage `target`: a tiny target model (`pipeline/targets/`) and its tokenizer, trained briefly, saved in shards; or a
real one, fetched and converted."""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pipeline import corpus, files, model_folder, products, settings
from pipeline.plan import TINY_POSITIONS, TINY_VOCABULARY
from pipeline.problem import Problem
from pipeline.report import Pace, artifact, metric, note, progress
from pipeline.settings import Settings

log = logging.getLogger("pipeline.target")

MARKER = "eyas-target.json"
CONVERSATIONS = 900
SPECIAL = ("<|pad|>", "<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_{{ m.role }}|>{{ m.role }}<|im_middle|>{{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_assistant|>assistant<|im_middle|>{% endif %}"
)
"""The shape of Kimi's chat template."""
SHARD = "300KB"
BATCH, LENGTH = 4, 128
SEED = 20


def main() -> None:
    wanted = settings.of_attempt()
    folder = products.target(wanted)
    kind = importlib.import_module(f"pipeline.targets.{settings.TARGETS[wanted.target]}")
    recipe = _recipe(wanted, kind)
    if _is_made(folder, recipe):
        note(f"The target model in {folder} is whole and made by the same recipe; keeping it.")
        progress("target ready", 1, 1)
        return
    half = folder.with_name(".target.tmp")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    if wanted.target == settings.SMOLLM2:
        kind.write(half)
    else:
        _write_tiny(kind, half, wanted.train_steps)
    name_tokenizer(half / "tokenizer_config.json")
    files.write_whole(half / MARKER, json.dumps({"recipe": recipe}).encode())
    shutil.rmtree(folder, ignore_errors=True)
    half.rename(folder)
    files.sync_folder(folder.parent)
    shards = len(list(folder.glob("*.safetensors")))
    metric("shards", shards)
    artifact(folder)
    note(f"Target model: {shards} safetensors shards in {folder}.")


def _recipe(wanted: Settings, kind: ModuleType) -> str:
    parts: Sequence[Any] = ()
    if wanted.target != settings.SMOLLM2:
        parts = (kind.SHAPE, TEMPLATE, TINY_VOCABULARY, CONVERSATIONS, SHARD, SEED, wanted.train_steps)
    code = Path(str(kind.__file__)).read_bytes()
    return hashlib.sha256(json.dumps(parts).encode() + code).hexdigest()


def _is_made(folder: Path, recipe: str) -> bool:
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        model_folder.check(folder)
    except (OSError, ValueError, Problem):
        return False
    return bool(marker.get("recipe") == recipe)


def _write_tiny(kind: ModuleType, folder: Path, steps: int) -> None:
    texts = corpus.conversations(CONVERSATIONS)
    progress("making the tokenizer", 0, None)
    tokenizer = _tokenizer(texts, kind.SPECIAL)
    tokenizer.save_pretrained(folder)
    kind.save(_train(kind, tokenizer, texts, steps), folder, SHARD)


def _tokenizer(texts: Sequence[Sequence[corpus.Message]], special: Sequence[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bytes_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = bytes_level
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=TINY_VOCABULARY,
        special_tokens=[*SPECIAL, *special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((m["content"] for messages in texts for m in messages), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|pad|>")
    fast.chat_template = TEMPLATE
    return fast


def name_tokenizer(path: Path) -> None:
    """transformers 5 names a class that transformers 4 does not have; this name loads in both."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    files.write_whole(path, json.dumps(config, indent=1, ensure_ascii=False).encode())


def _train(kind: ModuleType, tokenizer: Any, texts: Sequence[Sequence[corpus.Message]], steps: int) -> Any:
    import torch

    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    rendered = [tokenizer.apply_chat_template(list(messages), tokenize=False) for messages in texts]
    stream = torch.tensor([i for ids in tokenizer(rendered, add_special_tokens=False).input_ids for i in ids])
    model = kind.make(
        {
            "vocab_size": TINY_VOCABULARY,
            "max_position_embeddings": TINY_POSITIONS,
            "tie_word_embeddings": False,
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        }
    )
    parameters = sum(p.numel() for p in model.parameters())
    metric("parameters", parameters)
    note(f"Training a target of {parameters / 1e6:.2f} M parameters on {len(stream)} tokens, {steps} steps.")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.05)
    warm = max(1, min(30, steps // 10))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / warm) * (1 - 0.9 * step / steps)
    )
    pace = Pace("training the target", steps, "steps")
    for step in range(1, steps + 1):
        starts = torch.randint(0, len(stream) - LENGTH, (BATCH,))
        batch = torch.stack([stream[start : start + LENGTH] for start in starts])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 10 == 0 or step == steps:
            pace.step(step - pace.done)
            metric("loss", round(loss.item(), 4))
            log.info("step %d of %d, loss %.3f", step, steps, loss.item())
    return model.to(torch.bfloat16)
