from __future__ import annotations

from pathlib import Path

import pytest
import seed_site


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages folder with just the code that the probes read."""
    return seed_site.write(tmp_path / "site-packages")
