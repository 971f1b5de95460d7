"""What the tests of the drift probe share: a pair that fits, and what the probe says of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from drift_pair import Pair

from compat.drift import baseline, probe, record
from compat.drift.finding import Finding

Told = list[tuple[str, str, str, str]]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    made = Pair(tmp_path / "site-packages")
    made.write()
    return made


@pytest.fixture
def keep_facts(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Takes the pair as it is now for the version that the caller declares."""
    folder = tmp_path / "baselines"
    folder.mkdir()
    monkeypatch.setattr(baseline, "FOLDER", folder)

    def keep() -> None:
        baseline.save(record.facts_of("speculators", pair.site), folder)

    return keep


@pytest.fixture(autouse=True)
def no_facts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The facts that ship are of real releases, not of these."""
    monkeypatch.setattr(baseline, "FOLDER", tmp_path / "none")


def findings(pair: Pair, architecture: str = "") -> tuple[Finding, ...]:
    return probe(pair.site, architecture).findings


@pytest.fixture
def told(pair: Pair) -> Callable[..., Told]:
    """(severity, kind, callee, name) of each finding."""
    return lambda architecture="": [(f.severity, f.kind, f.callee, f.name) for f in findings(pair, architecture)]
