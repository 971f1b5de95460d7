"""Injects faults into a run's products as their causes would: the files stay readable, the manifest fits them.

`python spoil.py PRODUCTS FAULT`, in an environment with torch. What each does is its docstring.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

INDEX = 3
"""Of the sample that single faults go to."""
BATCH = 8
"""Samples of a batch, as run.batch_size has it."""
BLOCK = 16
"""Tokens of a block of the KV cache."""


class Products:
    """A run's hidden states and data set, to be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "hidden_states"
        self.dataset = folder / "dataset"
        self.target = folder / "target"
        self.manifest = self.folder / "manifest.jsonl"

    def path(self, index: int) -> Path:
        return self.folder / f"hs_{index}.safetensors"

    def indices(self) -> list[int]:
        return sorted(int(path.stem[3:]) for path in self.folder.glob("hs_*.safetensors"))

    def load(self, index: int) -> dict[str, Any]:
        from safetensors.torch import load_file

        return dict(load_file(self.path(index)))

    def save(self, index: int, states: Any) -> None:
        """In place of the sample's states; the manifest says so."""
        from safetensors.torch import save

        data = save({"hidden_states": states.contiguous(), "token_ids": self.load(index)["token_ids"]})
        self.path(index).write_bytes(data)
        self.tell(index, sha256=hashlib.sha256(data).hexdigest(), rows=len(states))

    def tell(self, index: int, **changed: Any) -> None:
        self.lines(lambda line: {**line, **changed} if line.get("index") == index else line)

    def lines(self, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        changed = [change(json.loads(line)) for line in self.manifest.read_text().splitlines()]
        self.manifest.write_text("".join(json.dumps(line) + "\n" for line in changed if line is not None))

    def samples(self, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        path = self.dataset / "dataset.jsonl"
        rows = [change(json.loads(line)) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows if row is not None))


def altered_file(p: Products) -> None:
    """A byte of one file changes on the disk."""
    data = bytearray(p.path(INDEX).read_bytes())
    data[-5000] ^= 0x10
    p.path(INDEX).write_bytes(data)


def truncated_file(p: Products) -> None:
    """One file loses its end."""
    p.path(INDEX).write_bytes(p.path(INDEX).read_bytes()[:-700])


def file_missing(p: Products) -> None:
    """One file is gone."""
    p.path(INDEX).unlink()


def not_extracted(p: Products) -> None:
    """The manifest has no line of a sample."""
    p.lines(lambda line: None if line.get("index") == INDEX else line)


def other_tokens(p: Products) -> None:
    """A conversation was prepared anew, otherwise."""
    p.samples(lambda row: {**row, "token_ids": [*row["token_ids"][:-1], 7]} if row["index"] == INDEX else row)


def other_target(p: Products) -> None:
    """A shard of the target was exchanged."""
    shard = sorted(p.target.glob("*.safetensors"))[1]
    data = bytearray(shard.read_bytes())
    data[-9] ^= 1
    shard.write_bytes(data)


def other_tokenizer(p: Products) -> None:
    """The chat template was edited after the extraction."""
    path = p.target / "chat_template.jinja"
    path.write_text(path.read_text() + " ")


def other_max_length(p: Products) -> None:
    """The samples were extracted under another max_length."""
    p.lines(lambda line: {**line, "max_length": 77} if "index" in line else line)


def layers_named_wrongly(p: Products) -> None:
    """The manifest calls layer outputs by vLLM's ids."""
    names = {"vllm_ids": [2, 4, 5, 8], "output_indices": [2, 4, 5, 8]}
    p.lines(lambda line: {**line, "layers": names} if "index" in line else line)


def nan(p: Products) -> None:
    """A value of one sample is NaN."""
    states = p.load(INDEX)["hidden_states"]
    states[5, 1, 7] = float("nan")
    p.save(INDEX, states)


def infinite(p: Products) -> None:
    """A value of one sample overflowed."""
    states = p.load(INDEX)["hidden_states"]
    states[9, 3, 0] = float("inf")
    p.save(INDEX, states)


def zeros(p: Products) -> None:
    """A layer was read from slots that nothing was written to (hybrid-block-size)."""
    for index in p.indices():
        states = p.load(index)["hidden_states"]
        states[:, 1] = 0
        p.save(index, states)


def layers_missing(p: Products) -> None:
    """One sample has three layers."""
    p.save(INDEX, p.load(INDEX)["hidden_states"][:, :3])


def unreadable_file(p: Products) -> None:
    """A file was written under other names than its readers know."""
    from safetensors.torch import save

    data = save({"states": p.load(INDEX)["hidden_states"], "token_ids": p.load(INDEX)["token_ids"]})
    p.path(INDEX).write_bytes(data)
    p.tell(INDEX, sha256=hashlib.sha256(data).hexdigest())


def wrong_shape(p: Products) -> None:
    """One sample was written flat."""
    p.save(INDEX, p.load(INDEX)["hidden_states"].flatten(1))


def rows_too_many(p: Products) -> None:
    """One sample has the token that the engine sampled, too."""
    import torch

    states = p.load(INDEX)["hidden_states"]
    p.save(INDEX, torch.cat([states, states[-1:]]))


def cut_by_length(p: Products, captured: Callable[[list[Any]], list[Any]]) -> None:
    """As speculators' generator cuts what was captured: by the prompts' lengths, whatever is there, batch by batch."""
    import torch

    numbers = p.indices()
    for first in range(0, len(numbers), BATCH):
        batch = numbers[first : first + BATCH]
        every = [p.load(index)["hidden_states"] for index in batch]
        stream, start = torch.cat(captured(every)), 0
        for index, states in zip(batch, every, strict=True):
            p.save(index, stream[start : start + len(states)])
            start += len(states)


def truncated(p: Products) -> None:
    """Chunked prefill: a prompt of each batch was run in part, and those behind it shift (chunked-prefill)."""
    cut_by_length(p, lambda every: [*every[:2], *(s[: len(s) // 2] for s in every[2:3]), *every[3:]])


def prefix_cache_hit(p: Products) -> None:
    """The common beginning of all prompts but the first came from the cache (prefix-cache-rows)."""
    cut_by_length(p, lambda every: [every[0], *(states[BLOCK:] for states in every[1:])])


def prefix_cache_hit_guarded(p: Products) -> None:
    """The same, each sample by itself: rows are missing at its front (vllm#44485)."""
    for index in p.indices()[1:]:
        p.save(index, p.load(index)["hidden_states"][BLOCK:])


def shifted_by_one(p: Products) -> None:
    """A row that belongs to nobody stands before the others."""
    import torch

    def captured(every: list[Any]) -> list[Any]:
        return [torch.randn_like(every[0][:1].float()).to(every[0].dtype), *every]

    cut_by_length(p, captured)


def shifted_order(p: Products) -> None:
    """Samples of one length have each other's states (result-order)."""
    by_length: dict[int, list[int]] = {}
    for index in p.indices():
        by_length.setdefault(len(p.load(index)["hidden_states"]), []).append(index)
    for same in by_length.values():
        every = [p.load(index)["hidden_states"] for index in same]
        for index, states in zip(same, [*every[1:], every[0]], strict=True):
            p.save(index, states)


def wrong_slots(p: Products) -> None:
    """Rows were read from the cache in another order than its blocks have (connector-layout)."""
    for index in p.indices():
        p.save(index, p.load(index)["hidden_states"].flip(0))


def norm_twice(p: Products) -> None:
    """The last state was captured behind the final norm."""
    from pipeline import origin
    from pipeline.weights import FINAL_NORM, Weights

    weight = Weights(p.target).tensor(FINAL_NORM).float()
    epsilon = origin.text_config(p.target)["rms_norm_eps"]
    for index in p.indices():
        states = p.load(index)["hidden_states"]
        last = states[:, -1].float()
        states[:, -1] = (last * (last.pow(2).mean(1, keepdim=True) + epsilon).rsqrt() * weight).to(states.dtype)
        p.save(index, states)


def numbers_differ(p: Products) -> None:
    """The states were made by slightly other weights."""
    for index in p.indices():
        states = p.load(index)["hidden_states"]
        p.save(index, (states.float() * 1.2).to(states.dtype))


def mask_shifted(p: Products) -> None:
    """The masks stand a token too late."""
    p.samples(lambda row: {**row, "loss_mask": [0, *row["loss_mask"][:-1]]})


def empty_mask(p: Products) -> None:
    """One sample has nothing to learn."""
    p.samples(lambda row: {**row, "loss_mask": [0] * len(row["loss_mask"])} if row["index"] == INDEX else row)


def empty_masks(p: Products) -> None:
    """No sample has anything to learn."""
    p.samples(lambda row: {**row, "loss_mask": [0] * len(row["loss_mask"])})


def mask_of_another_row(p: Products) -> None:
    """Masks were paired with the samples in another order."""
    rows = [json.loads(line) for line in (p.dataset / "dataset.jsonl").read_text().splitlines()]
    lengths = [len(row["loss_mask"]) for row in rows]
    first = next(k for k, n in enumerate(lengths) if lengths.count(n) > 1)
    second = lengths.index(lengths[first], first + 1)
    masks = {rows[first]["index"]: rows[second]["loss_mask"], rows[second]["index"]: rows[first]["loss_mask"]}
    p.samples(lambda row: {**row, "loss_mask": masks.get(row["index"], row["loss_mask"])})


def conversations_lost(p: Products) -> None:
    """A third of the samples is gone (empty-dataset)."""
    p.samples(lambda row: None if row["index"] % 3 == 0 else row)


def relabelled(p: Products) -> None:
    """Other layers than asked for were captured: only the manifest says that they are the right ones (aux-layers)."""
    names = {"vllm_ids": [2, 4, 5, 8], "output_indices": [1, 3, 4, 7]}
    p.lines(lambda line: {**line, "layers": names} if "index" in line else line)


def main() -> None:
    globals()[sys.argv[2]](Products(Path(sys.argv[1])))


if __name__ == "__main__":
    main()
