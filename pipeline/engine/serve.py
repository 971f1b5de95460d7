"""How to start a vLLM server that extracts hidden states: `python -m pipeline.engine.serve TARGET --storage DIR`.

Prints the command line of `vllm serve`, for any host whose disk the extracting host sees; with `--start` it becomes
that server, in the Python environment that it runs in and with the compat patches that its vLLM needs. Every token of
every prompt must be computed, so prefix caching is off.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from compat.switches import VARIABLE
from pipeline.layers import Layers, choose
from pipeline.origin import text_config
from pipeline.problem import Problem

SERVER = "vllm.entrypoints.openai.api_server"


def arguments(
    target: Path, layers: Layers, storage: Path, max_length: int, tensor_parallel: int, dtype: str, port: int
) -> list[str]:
    """Those of `vllm serve`."""
    speculative = {
        "method": "extract_hidden_states",
        "num_speculative_tokens": 1,
        "draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": list(layers.vllm_ids)}},
    }
    transfer = {
        "kv_connector": "ExampleHiddenStatesConnector",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": {"shared_storage_path": str(storage)},
    }
    return [
        str(target),
        *("--port", str(port)),
        *("--max-model-len", str(max_length + 1)),
        *("--tensor-parallel-size", str(tensor_parallel)),
        *("--dtype", dtype),
        *("--speculative-config", json.dumps(speculative)),
        *("--kv-transfer-config", json.dumps(transfer)),
        "--no-enable-prefix-caching",
        "--enforce-eager",
        "--trust-remote-code",
    ]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m pipeline.engine.serve", description=__doc__)
    parser.add_argument("target", type=Path, help="a model folder")
    parser.add_argument("--storage", type=Path, required=True, help="a folder that the extracting host sees, too")
    parser.add_argument("--layers", type=int, nargs=3, help="aux layers in vLLM's convention; default: vLLM's own")
    parser.add_argument("--max-length", type=int, default=2048, help="tokens of the longest sample")
    parser.add_argument("--tensor-parallel", type=int, default=1)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--start", action="store_true", help="become the server")
    given = parser.parse_args(argv)
    try:
        total = int(text_config(given.target)["num_hidden_layers"])
        layers = choose(total, tuple(given.layers) if given.layers else None)
    except (OSError, ValueError, KeyError) as error:
        print(f"{given.target} is no model folder ({error}).", file=sys.stderr)
        return 2
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 2
    found = arguments(
        given.target.resolve(),
        layers,
        given.storage.resolve(),
        given.max_length,
        given.tensor_parallel,
        given.dtype,
        given.port,
    )
    if given.start:
        given.storage.mkdir(parents=True, exist_ok=True)
        # What `vllm serve` runs; that command itself does not start in CPU builds of another distribution's name.
        os.execve(sys.executable, [sys.executable, "-m", SERVER, "--model", *found], _with_patches())
    print(shlex.join(["vllm", "serve", *found]))
    return 0


def _with_patches() -> dict[str, str]:
    """The environment in which vLLM's processes find the patches that they need (`compat/plugin`)."""
    bundle = Path(__file__).resolve().parents[2]
    found = [str(bundle), str(bundle / "compat" / "plugin"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {VARIABLE: "", **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, found))}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
