"""Run in the extract stage's environment: switches one patch off at a time and prints how extraction then fails.

`failing.py JSON`, of `[{"patch", "target", "asks"}…]`, prints `CASE {"patch", "type", "message", "frames"}` for each.
`asks` is what the engine is asked for: a key of ASKS. All cases share one process, so torch and vLLM are imported
once; speculators' modules are imported afresh for each.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    for case in json.loads(sys.argv[1]):
        print("CASE " + json.dumps({**case, **_case(case)}), flush=True)
        gc.collect()


def _case(case: dict[str, str]) -> dict[str, object]:
    for name in [name for name in sys.modules if name.startswith("speculators.data_generation")]:
        del sys.modules[name]
    os.environ["EYAS_SWITCHES"] = json.dumps({"off": [case["patch"]]})
    try:
        _run(Path(case["target"]), ASKS[case["asks"]])
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


def _run(target: Path, ask: Callable[[Any], None]) -> None:
    from compat.activate import activate
    from compat.switches import parse
    from pipeline.engine.generator import Engine

    activate("driver", parse(os.environ["EYAS_SWITCHES"]), lambda applied: None)
    with Engine(target, (1, 3, 4, 7), 600) as engine:
        ask(engine)


def _twice(engine: Any) -> None:
    engine.generate(_prompts(1, 40))
    engine.generate(_prompts(1, 20))


def _assert(worker: object) -> None:
    assert worker is None


ASKS: dict[str, Callable[[Any], None]] = {
    "a prompt, and one more": _twice,
    "12 prompts": lambda engine: engine.generate(_prompts(12, 20)),
    "40 prompts": lambda engine: engine.generate(_prompts(40, 20)),
    "20 prompts of 500 tokens": lambda engine: engine.generate(_prompts(20, 500)),
    "a worker's assertion": lambda engine: engine._generator.executor.collective_rpc(_assert),
}


def _prompts(count: int, length: int) -> list[list[int]]:
    return [[(7 * i + j) % 500 + 10 for i in range(length + j)] for j in range(count)]


if __name__ == "__main__":
    main()
