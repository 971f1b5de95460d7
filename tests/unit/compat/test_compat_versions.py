"""Version ranges, as far as the catalogue uses PEP 440."""

from __future__ import annotations

import pytest
import wheels

from compat.catalogue import PATCHES
from compat.patch import Patch
from compat.versions import within


@pytest.mark.parametrize(
    ("version", "specifier", "fits"),
    [
        ("0.16.0", ">=0.12.0", True),
        ("0.16.0+cpu", "==0.16.0", True),
        ("0.9.0", ">=0.12.0", False),
        ("0.12", ">=0.12.0", True),
        ("0.26.0", ">=0.12.0,<0.26.0", False),
        ("0.4.0.1", "==0.4.*", True),
        ("0.40.0", "==0.4.*", False),
        ("0.3.0", "!=0.3.0", False),
    ],
)
def test_a_version_fits_its_range(version: str, specifier: str, fits: bool) -> None:
    assert within(version, specifier) is fits


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.id)
def test_a_range_of_the_catalogue_can_be_read_and_holds_some_release(patch: Patch) -> None:
    assert any(within(version, patch.speculators) for version in (*wheels.SPECULATORS, "0.5.0"))
    assert any(within(version, patch.vllm) for version in (*wheels.VLLM, *wheels.VLLM_LATER))
