"""What a draft model needs of its target's folder, wherever the target keeps it.

speculators finds embedding, head and final norm by the ends of their names (`language_model.model.embed_tokens.weight`
too) and takes the embedding for the head of a tied target. But it reads the config through transformers, which runs
no code out of a model's folder here. A target whose own type is unknown to transformers, and whose `text_config` is
not, is shown to it as its language model alone.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.report import StageError


def config(folder: Path) -> dict[str, Any]:
    """config.json. Raises StageError when it cannot be read."""
    path = folder / "config.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StageError(f"{path} cannot be read ({error}); copy the target's config.json again.") from error
    return found


def text_config(folder: Path) -> dict[str, Any]:
    """The language model's part of config.json."""
    found = config(folder)
    inner = found.get("text_config")
    return inner if isinstance(inner, dict) else found


def vocabulary(folder: Path) -> int:
    """Rows of the target's embedding. Raises StageError when the config does not say."""
    size = text_config(folder).get("vocab_size")
    if not isinstance(size, int) or size < 1:
        raise StageError(f"{folder / 'config.json'} says no vocab_size; point run.target at a language model's folder.")
    return size


@contextmanager
def readable(folder: Path) -> Iterator[Path]:
    """The target's folder, or a stand-in with its language model's config and its weights, for as long as the block.

    Raises StageError when transformers knows neither the target's type nor its language model's.
    """
    found = config(folder)
    if _is_known(found):
        yield folder
        return
    inner = text_config(folder)
    if inner is found or not _is_known(inner):
        raise StageError(
            f"{folder / 'config.json'} names the model type {inner.get('model_type')!r}, which transformers does not "
            "know, so no draft model can be built for this target; use one of a type that it knows."
        )
    with tempfile.TemporaryDirectory(prefix="eyas-target-") as scratch:
        stand_in = Path(scratch)
        own = {key: value for key, value in inner.items() if key != "auto_map"}
        own.setdefault("architectures", found.get("architectures"))
        (stand_in / "config.json").write_text(json.dumps(own), encoding="utf-8")
        for path in folder.iterdir():
            if path.name.endswith((".safetensors", ".safetensors.index.json")):
                (stand_in / path.name).symlink_to(path.resolve())
        yield stand_in


def _is_known(found: dict[str, Any]) -> bool:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return found.get("model_type") in CONFIG_MAPPING
