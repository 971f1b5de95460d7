"""`python -m pipeline.try_environment MODULE…`, run by `provision` in an environment: imports what the stages import
and prints the versions.

The first import of the CPU build of vLLM also writes the metadata by which it knows itself for one.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys


def main() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    vllm = sys.modules.get("vllm")
    if vllm:
        print("vllm", vllm.__version__)
    for name in ("speculators", "torch", "transformers"):
        try:
            print(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            continue


if __name__ == "__main__":
    main()
