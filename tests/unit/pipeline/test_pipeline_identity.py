"""By its digest a target, and a tokenizer, is told from every other that states could be mixed up with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors_files import write_model

from pipeline import identity


def spoil(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("read_whole", [1 << 30, 0])
def test_two_trainings_of_one_architecture_are_two_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_whole: int
) -> None:
    """The weights of large targets are not read whole, and their names, sizes and headers are the same."""
    monkeypatch.setattr(identity, "WHOLE_BELOW", read_whole)
    folder = write_model(tmp_path / "model")
    found = {identity.digest(folder)}
    for shard in sorted(folder.glob("*.safetensors")):
        spoil(shard, -60)
        found.add(identity.digest(folder))
    assert len(found) == 4
    assert identity.digest(folder) in found


def test_of_a_shard_with_many_tensors_some_all_over_it_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "WHOLE_BELOW", 0)
    count, size = 4 * identity.PROBES, 2 * identity.PROBE
    tensors = {
        f"w{k}": {"dtype": "U8", "shape": [size], "data_offsets": [k * size, (k + 1) * size]} for k in range(count)
    }
    header = json.dumps(tensors).encode()
    shard = tmp_path / "model.safetensors"
    shard.write_bytes(len(header).to_bytes(8, "little") + header + bytes(count * size))
    (tmp_path / "config.json").write_text("{}")
    before = identity.digest(tmp_path)
    told = []
    for k in range(count):
        spoil(shard, 8 + len(header) + k * size)
        told.append(identity.digest(tmp_path) != before)
        spoil(shard, 8 + len(header) + k * size)
    assert sum(told) == identity.PROBES
    assert all(any(told[k : k + 4]) for k in range(0, count, 4))


@pytest.mark.parametrize("name", ["tiktoken.model", "qwen.tiktoken", "vocab.json", "tokenization_kimi.py"])
def test_the_tokens_of_a_slow_tokenizer_belong_to_its_digest(tmp_path: Path, name: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{}")
    before = identity.tokenizer_digest(tmp_path)
    (tmp_path / name).write_text("a 1")
    first = identity.tokenizer_digest(tmp_path)
    (tmp_path / name).write_text("a 2")
    assert len({before, first, identity.tokenizer_digest(tmp_path)}) == 3


def test_files_that_a_fast_tokenizer_does_not_read_do_not_belong_to_it(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    before = identity.tokenizer_digest(tmp_path)
    (tmp_path / "merges.txt").write_text("a b")
    assert identity.tokenizer_digest(tmp_path) == before
