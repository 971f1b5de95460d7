"""The releases that the probe is held against, each pair probed once; what was found goes into a report."""

from __future__ import annotations

from collections.abc import Iterator

import hit_table
import pytest
from cells import Matrix


@pytest.fixture(scope="session")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    made = Matrix(tmp_path_factory.mktemp("matrix"))
    yield made
    hit_table.write(made)
