"""Run in a stage's environment: `same_states.py FOLDER FOLDER` prints `RESULT {"files", "worst"}` of two folders of
hidden states: the largest difference beside the largest value of its layer. The token ids must be equal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    import torch
    from safetensors.torch import load_file

    one, other = map(Path, sys.argv[1:])
    worst = 0.0
    names = sorted(path.name for path in one.glob("hs_*.safetensors"))
    for name in names:
        a, b = load_file(one / name), load_file(other / name)
        assert torch.equal(a["token_ids"], b["token_ids"]), name
        x, y = a["hidden_states"].float(), b["hidden_states"].float()
        far = (x - y).abs().amax(dim=(0, 2)) / x.abs().amax(dim=(0, 2))
        worst = max(worst, far.max().item())
    print("RESULT " + json.dumps({"files": len(names), "worst": worst}))


if __name__ == "__main__":
    main()
