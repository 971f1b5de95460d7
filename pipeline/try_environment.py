"""`python -m pipeline.try_environment MODULE…`, run by `provision` in the environment it made: imports what the stages
import and prints the versions.

The first import of the CPU build of vLLM also writes the metadata by which it knows itself for one.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys


def main() -> None:
    vllm = importlib.import_module("vllm")
    for name in sys.argv[1:]:
        importlib.import_module(name)
    print("vllm", vllm.__version__)
    print("speculators", importlib.metadata.version("speculators"))


if __name__ == "__main__":
    main()
