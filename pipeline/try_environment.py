"""`python -m pipeline.try_environment MODULE…`, run by `provision` in an environment: imports what the stages import
and prints the versions. `a|b` is whichever of the modules is there.

The first import of the CPU build of vLLM also writes the metadata by which it knows itself for one.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys


def main() -> None:
    for names in sys.argv[1:]:
        first, *others = names.split("|")
        importlib.import_module(next((name for name in others if importlib.util.find_spec(name)), first))
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
