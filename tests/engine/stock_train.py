"""Run in the current pair's environment: `stock_train.py PRODUCTS WORK [ARGUMENT…]` is stock `speculators train` over
the hidden states of a run, for a few steps. Of Eyas there is what writes the data set, and the patches of CPU hosts.

Prints `RESULT {"epochs", "warnings"}`: the trainer's figures of each epoch on held-out samples, and what its data set
warned of.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

EPOCHS = 2


def main() -> None:
    products, work, *more = Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]
    from compat.activate import activate
    from compat.patch import Switches
    from pipeline import dataset, store, training_data

    samples = dataset.read(products / "dataset")
    data = store.data_digest(products / "hidden_states", samples)
    training_data.write(samples, work / "training_data", data)
    activate("driver", Switches(), lambda applied: None)

    import torch
    from speculators.__main__ import app

    torch.set_num_threads(1)
    command = [
        "train",
        f"--verifier-name-or-path={products / 'target'}",
        f"--data-path={work / 'training_data'}",
        f"--hidden-states-path={products / 'hidden_states'}",
        f"--save-path={work / 'checkpoints'}",
        "--on-missing=raise",
        "--draft-vocab-size=256",
        "--total-seq-len=256",
        "--num-workers=0",
        "--hidden-states-dtype=float32",
        "--draft-attn-impl=eager",
        "--loss-implementation=eager",
        "--optimizer=adamw",
        "--lr=2e-3",
        f"--epochs={EPOCHS}",
        "--log-freq=1",
        "--target-layer-ids",
        "2",
        "4",
        "5",
        *more,
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        app(command, standalone_mode=False)
    found = [str(w.message) for w in caught if "hidden states" in str(w.message) or "oken ids" in str(w.message)]
    epochs = [json.loads((work / "checkpoints" / str(n) / "val_metrics.json").read_text()) for n in range(EPOCHS)]
    print("RESULT " + json.dumps({"epochs": epochs, "warnings": found}), flush=True)


if __name__ == "__main__":
    main()
