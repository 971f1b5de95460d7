"""Run in a stage environment: `reading.py PRODUCTS WORK ROUNDS` reads an epoch of samples as the trainer does, in turn
with `torch.load` of the same in speculators 0.3.0's form. Files are in the page cache.

Prints `RESULT {what: [seconds of each round]}`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main() -> None:
    products, work, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    import torch
    from safetensors.torch import load_file

    paths = sorted((products / "hidden_states").glob("hs_*"))
    for path in paths:
        found = load_file(path)
        layers = [layer.contiguous() for layer in found["hidden_states"].unbind(1)]
        mask = torch.ones_like(found["token_ids"])
        torch.save(
            {"input_ids": found["token_ids"], "hidden_states": layers, "loss_mask": mask}, work / f"{path.stem}.pt"
        )
    saved = sorted(work.glob("*.pt"))
    taken: dict[str, list[float]] = {"safetensors": [], "torch.load": []}
    for _ in range(rounds):
        for name, read, files in (("safetensors", load_file, paths), ("torch.load", torch.load, saved)):
            began = time.perf_counter()
            for path in files:
                tensors = read(path)
                states = tensors["hidden_states"]
                # Both as the trainer takes them: the aux layers side by side, and the last.
                aux = states[:, :-1].flatten(1) if name == "safetensors" else torch.cat(states[:-1], dim=1)
                assert aux.shape[0] == len(tensors["token_ids" if name == "safetensors" else "input_ids"])
            taken[name].append(time.perf_counter() - began)
    print("RESULT " + json.dumps(taken), flush=True)


if __name__ == "__main__":
    main()
