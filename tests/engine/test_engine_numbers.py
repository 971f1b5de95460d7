"""Extracted states equal a plain transformers forward of the same tokens."""

from __future__ import annotations

import json

import pytest
from engine_run import Run

pytestmark = pytest.mark.engine

TOLERANCE = 1e-4
"""Largest absolute difference between two 32-bit forwards; measured: below 6e-6."""


@pytest.mark.parametrize(
    ("tensor_parallel", "off"),
    [("1", ()), ("1", ("row-attribution",)), ("2", ())],
    ids=["one rank", "without the guard", "two ranks"],
)
def test_every_row_is_the_reference_row(
    run: Run, tensor_parallel: str, off: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    output = run.script("compare.py", str(run.products / "target"), tensor_parallel, *off)
    result = json.loads(next(line for line in output.splitlines() if line.startswith("RESULT "))[7:])
    batches = result["batches"]
    if tensor_parallel == "1":
        assert batches["above max_num_batched_tokens"]["tokens"] > result["limit"]
    with capsys.disabled():
        for name, batch in batches.items():
            shown = "  ".join(f"{d:.1e} of {s:.0f}" for d, s in zip(batch["diff"], batch["size"], strict=True))
            print(f"\n    tp {tensor_parallel}, {name}: max abs difference of each layer: {shown}", end="")
    for name, batch in batches.items():
        assert batch["rows"] == batch["expected"], name
        assert max(batch["diff"]) < TOLERANCE, name
