"""Version ranges, as far as the catalogue uses PEP 440."""

from __future__ import annotations

import pytest

from compat.catalogue import PATCHES
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


def test_every_range_of_the_catalogue_can_be_read_and_holds_the_seed_pair() -> None:
    assert all(within("0.3.0", patch.speculators) and within("0.16.0", patch.vllm) for patch in PATCHES)
