"""Run in a stage environment: `difference.py PRODUCTS OTHER` compares two sets of hidden states, sample by sample.

Prints `RESULT {"samples", "tokens", "diff", "size"}`: the largest absolute difference and value of each layer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def states(products: str) -> dict[str, Any]:
    from safetensors.torch import load_file

    return {path.name: load_file(path) for path in sorted((Path(products) / "hidden_states").glob("hs_*"))}


def main() -> None:
    import torch

    first, second = states(sys.argv[1]), states(sys.argv[2])
    assert first.keys() == second.keys()
    for name, one in first.items():
        assert torch.equal(one["token_ids"], second[name]["token_ids"])
    diffs = [(one["hidden_states"] - second[name]["hidden_states"]).abs().amax((0, 2)) for name, one in first.items()]
    sizes = [one["hidden_states"].abs().amax((0, 2)) for one in second.values()]
    result = {
        "samples": len(first),
        "tokens": sum(len(one["token_ids"]) for one in first.values()),
        "diff": torch.stack(diffs).amax(0).tolist(),
        "size": torch.stack(sizes).amax(0).tolist(),
    }
    print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
