"""Extracted states equal a plain transformers forward of the same tokens, for every type of target and release."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import patch_table
import pytest
from engine_run import Run

pytestmark = pytest.mark.engine

TOLERANCE = 2e-5
"""Largest difference between two 32-bit forwards, of a layer's largest value; measured: below 5e-6."""
TARGETS = ("tiny", "tiny-qwen3", "tiny-deepseek-v3", "tiny-kimi-k25")


def compared(run: Run, targets: list[Path], ranks: int = 1, off: tuple[str, ...] = (), long: bool = False) -> Any:
    asked = {"targets": [str(t) for t in targets], "tensor_parallel": ranks, "off": off, "long": long}
    output = run.script("compare.py", json.dumps(asked))
    return [json.loads(line[7:]) for line in output.splitlines() if line.startswith("RESULT ")]


def worst(result: dict[str, Any]) -> float:
    return max(max(batch["diff"]) for batch in result["batches"].values())


def check(result: dict[str, Any]) -> None:
    for name, batch in result["batches"].items():
        assert batch["rows"] == batch["expected"], name
        for difference, size in zip(batch["diff"], batch["size"], strict=True):
            assert difference < TOLERANCE * size, name


@pytest.mark.parametrize(
    ("speculators", "ranks", "off"),
    [("0.3.0", 1, ()), ("0.3.0", 1, ("row-attribution",)), ("0.3.0", 2, ()), ("0.4.0.1", 1, ())],
    ids=["one rank", "without the guard", "two ranks", "speculators 0.4.0.1"],
)
def test_every_row_is_the_reference_row(
    run: Run, release: Callable[[str], Run], speculators: str, ranks: int, off: tuple[str, ...]
) -> None:
    long = ranks == 1  # slow on two ranks, and the ranks see the same steps
    (result,) = compared(release(speculators), [run.products / "target"], ranks, off, long)
    if long:
        assert result["batches"]["above max_num_batched_tokens"]["tokens"] > result["limit"]
    check(result)


@pytest.fixture(scope="module", params=["0.3.0", "0.4.0.1"])
def results(
    request: pytest.FixtureRequest, release: Callable[[str], Run], target: Callable[[str], Path]
) -> dict[str, dict[str, Any]]:
    """Target type → what the comparison gave, of one release of speculators."""
    results = compared(release(request.param), [target(name) for name in TARGETS])
    found = dict(zip(TARGETS, results, strict=True))
    rows = [{"speculators": request.param, "target": name, "diff": worst(r)} for name, r in found.items()]
    patch_table.add(patch_table.NUMBERS, rows)
    return found


@pytest.mark.parametrize("name", TARGETS)
def test_every_type_of_target_gives_the_reference_s_rows(name: str, results: dict[str, dict[str, Any]]) -> None:
    check(results[name])


def test_without_its_patch_the_rotary_kernel_is_wrong_for_a_deepseek_type(
    run: Run, target: Callable[[str], Path]
) -> None:
    (result,) = compared(run, [target("tiny-deepseek-v3")], off=("cpu-rotary",))
    assert worst(result) > 0.05
    row = {"speculators": "0.3.0", "patch": "cpu-rotary", "drift": "D30", "target": "tiny-deepseek-v3"}
    patch_table.add(patch_table.SILENT, [{**row, "diff": worst(result)}])
