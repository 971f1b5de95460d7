"""A fake host for each test, emptied of its processes afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from faults.fake_host import FakeHost


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FakeHost]:
    made = FakeHost(tmp_path)
    yield made
    made.clear()
