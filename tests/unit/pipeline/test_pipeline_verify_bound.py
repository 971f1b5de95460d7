"""What a verdict of verify is bound to beside the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import environments, verify
from pipeline.pairs import BUILDS
from pipeline.settings import EnvironmentSettings, Settings


def test_a_verdict_is_one_of_these_stages_and_these_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: (read.append(self), real(self))[1])
    assert verify._code({"target": "a"}) != verify._code({"target": "b"})
    names = {"/".join(path.parts[-3:]) for path in read}
    assert {"pipeline/gates/rows.py", "compat/patches/row_attribution.py"} <= names


@pytest.mark.parametrize("build", BUILDS)
def test_the_trainer_that_is_asked_for_its_norm_is_that_of_the_run_s_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    wanted = Settings(environments={"current": EnvironmentSettings(build=build)})
    assert verify._trainer(wanted) is None
    made = environments.of(wanted, "current")
    made.python.parent.mkdir(parents=True)
    made.python.touch()
    made.mark({})
    assert verify._trainer(wanted) == made.site
