"""Run in the draft stages' environment: a draft model built, saved and loaded again for targets of every shape.

Prints `DRAFT {"target", "norm", "same", "embedding", "head", "config"}` for each.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

VOCABULARY, DRAFT = 320, 64


def main() -> None:
    place = Path(sys.argv[1])
    for name in ("llama", "qwen3", "deepseek_v3", "kimi_k25", "tied", "nested"):
        target = place / name
        target.mkdir(parents=True)
        embedding, head = _target(name, target)
        print("DRAFT " + json.dumps({"target": name, **_draft(target, place / f"{name}-words", embedding, head)}))


def _target(name: str, folder: Path) -> tuple[Any, Any]:
    """Makes a target with random weights; its embedding and its head."""
    import torch

    kind = importlib.import_module(f"pipeline.targets.{'llama' if name in ('tied', 'nested') else name}")
    torch.manual_seed(3)
    tied = name == "tied"
    model = kind.make(
        {
            "vocab_size": VOCABULARY,
            "max_position_embeddings": 256,
            "tie_word_embeddings": tied,
            "bos_token_id": None,
            "eos_token_id": 5,
            "pad_token_id": 0,
        }
    )
    special = [{"id": 9, "content": token} for token in kind.SPECIAL] if hasattr(kind, "SPECIAL") else []
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": special}))
    kind.save(model, folder, "300KB")
    if name == "nested":  # a type that no library knows around a language model that transformers does
        inner = json.loads((folder / "config.json").read_text())
        whole = {"model_type": "eyas_wrapper", "architectures": ["Wrapped"], "text_config": inner}
        (folder / "config.json").write_text(json.dumps(whole))
    return model.get_input_embeddings().weight.detach().float(), model.get_output_embeddings().weight.detach().float()


def _draft(target: Path, words: Path, embedding: Any, head: Any) -> dict[str, Any]:
    import numpy
    import torch

    from pipeline import vocabulary
    from pipeline.draft import model
    from pipeline.draft.shape import Shape
    from pipeline.layers import Layers

    ids = numpy.arange(0, 4 * DRAFT, 4)
    said = numpy.zeros(VOCABULARY, dtype=bool)
    said[ids] = True
    about = {"data": "d", "coverage": 1.0, "tokens": 1, "missing": 0}
    vocabulary.write(words, ids - numpy.arange(DRAFT), said, **about)
    made = model.untrained(target, Layers((1, 2, 3, 4)), words, Shape(norm_output=True))
    again = model.untrained(target, Layers((1, 2, 3, 4)), words, Shape(norm_output=True))
    saved = target / "draft"
    model.save(made, saved)
    loaded = model.load(saved, target)
    pairs = zip(made.state_dict().values(), loaded.state_dict().values(), strict=True)
    return {
        "embedding": bool(torch.equal(made.embed_tokens.weight, embedding)),
        "head": bool(
            torch.equal(made.lm_head.weight, head[ids]) and torch.equal(made.verifier_lm_head.weight, head[ids])
        ),
        "repeated": all(map(torch.equal, made.state_dict().values(), again.state_dict().values())),
        "loaded": all(torch.equal(a.to(b.dtype).bfloat16().to(b.dtype), b.bfloat16().to(b.dtype)) for a, b in pairs),
        "dtype": str(loaded.dtype),
        "config": json.loads((saved / "config.json").read_text()),
    }


if __name__ == "__main__":
    main()
