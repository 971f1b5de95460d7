"""Checks a model folder on the host before anything is started: config, tokenizer, every safetensors shard."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.problem import Problem
from pipeline.report import StageError

_NUMBERED = re.compile(r"(.+)-\d+-of-(\d{1,6})\.safetensors")
HEADER_CAP = 100 << 20
"""Bytes; the format allows no header above this."""


@dataclass(frozen=True)
class Model:
    """What the plan must know of a target."""

    architecture: str
    layers: int
    heads: int
    positions: int | None
    """Longest sequence it was made for, in tokens."""
    vocabulary: int | None = None
    """Tokens."""


def check(folder: Path) -> Model:
    """The model in a folder. Raises Problem (no_target) that names the missing or broken file."""
    if not folder.is_dir():
        raise _no(f"There is no model folder {folder} on the host.", "Correct run.target, or copy the model there.")
    config = _config(folder / "config.json")
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "tokenizer_config.json")):
        raise _no(f"{folder} has no tokenizer.", "Copy the model's tokenizer files into the folder.")
    for shard in _shards(folder):
        check_shard(shard)
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else config
    assert isinstance(text, dict)
    layers, heads = text.get("num_hidden_layers"), text.get("num_attention_heads")
    if not isinstance(layers, int) or not isinstance(heads, int):
        raise _no(
            f"{folder / 'config.json'} does not say num_hidden_layers and num_attention_heads.",
            "Point run.target at the folder of a decoder-only language model.",
        )
    positions = text.get("max_position_embeddings")
    tokens = text.get("vocab_size")
    names = config.get("architectures") or [""]
    return Model(
        str(names[0]),
        layers,
        heads,
        positions if isinstance(positions, int) else None,
        tokens if isinstance(tokens, int) else None,
    )


def require(folder: Path) -> None:
    """Raises StageError for a model folder that has lost a file since the plan, before it costs a load."""
    try:
        check(folder)
    except Problem as problem:
        raise StageError(f"{problem.message} {problem.remedy}") from problem


def check_shard(path: Path) -> None:
    """Raises Problem (no_target) unless the file is as long as its own header says."""
    copy = "Copy that file again from its source."
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(HEADER_CAP, size - 8):
                raise _no(f"The shard {path} is cut off: {size} bytes do not hold its header.", copy)
            header = json.loads(file.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    except OSError as error:
        raise _no(
            f"The shard {path} cannot be read: {error.strerror}.", "Copy the file, or give it read rights."
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise _no(f"The shard {path} has no readable safetensors header.", copy) from None
    wanted = 8 + length + max(ends, default=0)
    if size != wanted:
        raise _no(f"The shard {path} is {size} bytes long, and its header says {wanted}.", copy)


def _config(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _no(
            f"{path.parent} has no config.json.", "Point run.target at the folder that holds config.json."
        ) from None
    except (OSError, ValueError) as error:
        raise _no(f"{path} cannot be read: {error}.", "Copy the file again from its source.") from None
    if not isinstance(data, dict):
        raise _no(f"{path} holds no object.", "Copy the file again from its source.")
    return data


def _shards(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise _no(f"{index} cannot be read: {error}.", "Copy the file again from its source.") from None
        missing = [name for name in names if not (folder / str(name)).is_file()]
        if missing:
            raise _no(
                f"{folder} lacks {len(missing)} of {len(names)} shards; the first is {missing[0]}.",
                "Copy the missing shards from the model's source.",
            )
        return [folder / str(name) for name in names]
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        raise _no(f"{folder} holds no safetensors weights.", "Copy the model's .safetensors files into the folder.")
    if not (folder / "model.safetensors").is_file():
        _check_numbers(folder, found)
    return found


def _check_numbers(folder: Path, shards: list[Path]) -> None:
    """Shards without an index, as a copy that broke off leaves them, say themselves how many they are."""
    for beginning, total in {named.groups() for named in (_NUMBERED.fullmatch(path.name) for path in shards) if named}:
        names = [f"{beginning}-{number:0{len(total)}}-of-{total}.safetensors" for number in range(1, int(total) + 1)]
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise _no(
                f"{folder} lacks {len(missing)} of {len(names)} shards; the first is {missing[0]}.",
                "Copy the missing shards, and model.safetensors.index.json, from the model's source.",
            )


def _no(message: str, remedy: str) -> Problem:
    return Problem("no_target", message, remedy)
