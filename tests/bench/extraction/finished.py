"""Run in a stage environment: `finished.py WORK COUNT` makes a finished extraction of COUNT samples, a run of its own.

Prints `RESULT {"bytes"}`.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

LENGTH = 60
SHAPE = (4, 128)
"""Layers and hidden size of the tiny target."""


def main() -> None:
    run, count, settings = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    import torch

    from pipeline import dataset, origin
    from pipeline.dataset import Sample
    from pipeline.sample_files import serialised
    from pipeline.settings import parse
    from pipeline.store import Part, Store

    made = [Sample(i, tuple((7 * i + j) % 900 + 10 for j in range(LENGTH)), (1,) * LENGTH) for i in range(count)]
    products = run / "products"
    dataset.write(products / "dataset", made, {})
    store = Store(products / "hidden_states", origin.of(parse(settings), products / "target"))
    store.begin("bench/extract/1", "transformers", [])
    states, total = torch.randn(LENGTH, *SHAPE).to(torch.bfloat16), 0
    for start in range(0, count, 500):
        parts = []
        for sample in made[start : start + 500]:
            data = b"".join(bytes(block) for block in serialised(sample, states + sample.index, "full"))
            path = products / "hidden_states" / f".{sample.index}"
            path.write_bytes(data)
            parts.append(Part(sample, path, hashlib.sha256(data).hexdigest()))
            total += len(data)
        store.commit(parts)
    print("RESULT " + json.dumps({"bytes": total}), flush=True)


if __name__ == "__main__":
    main()
