"""Run in a stage environment: what `ties.py` says of rows whose cause is known.

`tie_cases.py TARGET` prints `RESULT {case: {"rows", "unexplained", "places", "true", "after"}}`: the rows that differ,
how many of them stay unexplained, where other experts were found and where they were, and the difference with those.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import compare
import ties
import torch
from reference import Reference

PROMPT = [(11 * i * i + 17 * i) % 900 + 10 for i in range(120)]


def main() -> None:
    routers = ties.Routers(Reference(sys.argv[1], compare.LAYERS.output_indices))
    expected = routers.forward(PROMPT)
    margins = dict(routers.margins)
    ties.NEAR = 1.0  # these experts are as good as equal nowhere, and are taken all the same
    one, two = nearest(margins, 0), nearest(margins, 60)
    wrong = expected.clone()
    wrong[40:43, 2] *= 1.01
    lone = expected.clone()
    lone[70] = expected[80]
    cases = {
        "none": (expected, []),
        "one tie": (routers.forward(PROMPT, [one]), [one]),
        "two ties": (routers.forward(PROMPT, [one, two]), [one, two]),
        "wrong rows": (wrong, []),
        "another row's": (lone, []),
    }
    told = {name: case(routers, states, expected, margins, true) for name, (states, true) in cases.items()}
    print("RESULT " + json.dumps(told), flush=True)


def nearest(margins: dict[int, Any], first: int) -> tuple[int, int]:
    """(layer, row) of the smallest margin of the 60 rows from `first` on."""
    places = [(float(margin[row]), layer, row) for layer, margin in margins.items() for row in range(first, first + 60)]
    return min(places)[1:]


def case(
    routers: ties.Routers, states: Any, expected: Any, margins: dict[int, Any], true: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    explained = ties.Explained(routers, [ties.Pair(PROMPT, states, expected, margins)], compare.TOLERANCE)
    places = sorted({row.tie for row in explained.rows if row.tie})
    return {
        "rows": [row.row for row in explained.rows],
        "unexplained": explained.told()["unexplained"],
        "places": places,
        "true": sorted(true),
        "after": max((row.after for row in explained.rows if row.tie), default=0.0),
    }


if __name__ == "__main__":
    with torch.no_grad():
        main()
