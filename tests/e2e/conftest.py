"""One real run of the whole pipeline serves many tests here: stages are slow, their outcomes are shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from workstation import Workstation


@pytest.fixture(scope="session")
def make_workstation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Workstation]]:
    made: list[Workstation] = []

    def make(name: str, **settings: str) -> Workstation:
        made.append(Workstation(tmp_path_factory.mktemp(name), settings))
        return made[-1]

    yield make
    for workstation in made:
        workstation.stop_all()
