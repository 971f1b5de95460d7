"""Run in the seed environment: switches one patch off at a time and prints how extraction then fails, as JSON lines.

All cases share one process, so torch and vLLM are imported once; speculators' modules are imported afresh for each.
`failing.py TARGET PATCH…`
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from pathlib import Path


def main() -> None:
    target, *patches = sys.argv[1:]
    for patch in patches:
        print("CASE " + json.dumps({"patch": patch, **_case(Path(target), patch)}), flush=True)
        gc.collect()


def _case(target: Path, patch: str) -> dict[str, object]:
    for name in [name for name in sys.modules if name.startswith("speculators.data_generation")]:
        del sys.modules[name]
    os.environ["EYAS_SWITCHES"] = json.dumps({"off": [patch]})
    try:
        _generate(target, above_limit=patch == "chunked-prefill")
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        return {
            "type": f"{type(error).__module__}.{type(error).__qualname__}",
            "message": str(error),
            "frames": [
                {"file": f.filename, "line": f.lineno, "function": f.name, "source": f.line or ""} for f in frames
            ],
        }
    return {"type": None, "message": "", "frames": []}


def _generate(target: Path, above_limit: bool) -> None:
    from compat.activate import activate
    from compat.switches import parse
    from pipeline.engine.hidden_states import Engine

    activate("driver", parse(os.environ["EYAS_SWITCHES"]), lambda applied: None)
    with Engine(target, (1, 3, 4, 7), 600) as engine:
        engine.generate([[(7 * i) % 500 + 10 for i in range(40)]])
        length, count = (500, 20) if above_limit else (20, 1)
        engine.generate([[(7 * i + j) % 500 + 10 for i in range(length)] for j in range(count)])


if __name__ == "__main__":
    main()
