"""The drift probe against published releases: every live incompatibility is found, nothing else of the catalogue is."""

from __future__ import annotations

from itertools import product

import pytest
import wheels
from cells import Cell, Matrix
from live import DEEPSEEK, ITEMS, JUDGED, KIMI

from compat.versions import within

EVERY_DAY = ("0.16.0", "0.32.0")


def cells() -> list[object]:
    """Those of `make test`, and those of `make test-matrix` alone."""
    found = [Cell(s, v) for s, v in product(wheels.SPECULATORS, (*wheels.VLLM, *wheels.VLLM_LATER))]
    found += [Cell("0.3.0", v, DEEPSEEK) for v in (*wheels.VLLM, *wheels.VLLM_LATER)]
    later = [v for v in (*wheels.VLLM, *wheels.VLLM_LATER) if within(v, ">=0.15.0")]
    found += [Cell(s, v, KIMI) for s, v in product(("0.3.0", "0.4.0.1"), later)]
    return [pytest.param(c, id=c.name, marks=() if c.vllm in EVERY_DAY else pytest.mark.matrix) for c in found]


@pytest.mark.parametrize("cell", cells())
def test_what_is_live_is_found_and_what_is_not_is_not(matrix: Matrix, cell: Cell) -> None:
    found = {finding.patch for finding in matrix.report(cell).findings}
    for item in ITEMS:
        if item.architecture != cell.architecture:
            continue
        pair = cell.speculators, cell.vllm
        expected = item.is_live(*pair) and not item.is_unseen(*pair)
        assert (item.patch in found) == expected, f"{item.drift} {item.patch}"


@pytest.mark.parametrize("cell", cells())
def test_every_other_finding_has_been_judged_and_none_that_fails_is_wrong(matrix: Matrix, cell: Cell) -> None:
    for finding in matrix.report(cell).findings:
        if not finding.patch and finding.kind != "unsupported-architecture":
            verdict = JUDGED.get((finding.kind, finding.name or finding.callee), ("not judged", ""))[0]
            assert verdict == "true" or (verdict, finding.severity) == ("false positive", "silent"), finding


@pytest.mark.parametrize("cell", cells())
def test_everything_is_read(matrix: Matrix, cell: Cell) -> None:
    assert matrix.report(cell).unread == ()


@pytest.mark.parametrize("cell", [c for c in cells() if c.values[0].speculators == "0.3.0"])  # type: ignore[attr-defined]
def test_prefix_caching_is_among_the_first_three_of_all_findings(matrix: Matrix, cell: Cell) -> None:
    place = [finding.patch for finding in matrix.report(cell).findings].index
    if within(cell.vllm, ">=0.12.0"):
        assert place("prefix-caching") < 3
