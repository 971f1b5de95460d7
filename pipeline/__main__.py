"""`python -m pipeline plan | patches | drift | show | STAGE`; all but a stage read JSON and answer in JSON."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from pipeline.problem import Problem

ANSWERS = ("plan", "patches", "drift", "show")


def answer(command: str) -> int:
    """0 and the result, or 2 and `{"error": {kind, message, remedy}}`."""
    module = importlib.import_module(f"pipeline.{command}")
    try:
        request: Any = json.load(sys.stdin)
        result = getattr(module, command)(request)
    except Problem as problem:
        result = {"error": problem.to_json()}
    except ValueError as error:
        result = {"error": {"kind": "bad_settings", "message": f"The request is not valid: {error}.", "remedy": ""}}
    print(json.dumps(result))
    return 2 if "error" in result else 0


def main(argv: list[str]) -> int:
    from pipeline.report import run_stage
    from pipeline.stages import STAGES

    if len(argv) == 1 and argv[0] in ANSWERS:
        return answer(argv[0])
    stage = next((stage for stage in STAGES if argv == [stage.name]), None)
    if stage is None:
        names = ", ".join([*ANSWERS, *(s.name for s in STAGES)])
        print(f"There is no stage {' '.join(argv)!r}; use one of: {names}.", file=sys.stderr)
        return 2
    return run_stage(stage.module)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
