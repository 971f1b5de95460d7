"""Run in the current pair's environment: `fp8_states.py PACKED PLAIN` compares hidden states in 8-bit floats with the
same in full, and both files with what hs-connectors and safetensors make of them.

Prints `RESULT {"as_hs_connectors", "as_safetensors", "size"}`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    packed, plain = (Path(argument) / "hidden_states" for argument in sys.argv[1:])
    import torch
    from hs_connectors.fp8_utils import quantize_tensor_to_fp8
    from hs_connectors.transfer import FP8Transfer
    from safetensors.torch import load_file, save

    from pipeline import sample_files, states

    sample_files._WIDE = 1 << 13  # a few tokens at once, where a sample would be one piece
    reader = FP8Transfer(packed)
    names = sorted(path.name for path in plain.glob("hs_*"))
    same, written = [], []
    for name in names:
        full = load_file(plain / name)
        small = load_file(packed / name)
        values, scales = quantize_tensor_to_fp8(full["hidden_states"])
        same.append(torch.equal(values.float(), small["hidden_states"].float()))
        same.append(torch.equal(scales, small["hidden_states_scales"]))
        pieces, their_scales = sample_files.quantised(full["hidden_states"])
        same += [torch.equal(pieces.float(), values.float()), torch.equal(their_scales, scales)]
        taken = reader.get_cached(int(name[3:].partition(".")[0]))
        assert taken is not None
        with states.opened(packed / name) as file:
            same.append(torch.equal(taken["hidden_states"], file.all()))
            same.append(torch.equal(taken["hidden_states"][2:5], file.rows(2, 5)))
        written += [save(load_file(folder / name)) == (folder / name).read_bytes() for folder in (plain, packed)]
    size = sum((packed / n).stat().st_size for n in names) / sum((plain / n).stat().st_size for n in names)
    print("RESULT " + json.dumps({"as_hs_connectors": all(same), "as_safetensors": all(written), "size": size}))


if __name__ == "__main__":
    main()
