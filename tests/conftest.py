"""What all tests share: a workstation and a host state of their own, and the slow, real-engine tests last."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# How long an example takes says what else the machine does.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

ORDER = ("unit", "snapshots", "integration", "faults", "e2e", "matrix", "engine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent

    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(root).parts[0]
        return ORDER.index(folder) if folder in ORDER else len(ORDER)

    items.sort(key=rank)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the developer's own runs, projects or settings; the cache of stage environments stays."""
    state = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("EYAS_PROJECT", "EYAS_RUN", "EYAS_ATTEMPT", "EYAS_SWITCHES"):
        monkeypatch.delenv(name, raising=False)
    return state / "eyas"
