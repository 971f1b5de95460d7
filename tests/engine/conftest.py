"""A real seed environment, a real tiny target and a dataset, made once for all engine tests."""

from __future__ import annotations

import pytest
from engine_run import PAIRS, Run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with its environment, the tiny target, and a dataset of twelve samples."""
    settings = {"run": {"samples": 12, "batch_size": 4}}
    made = Run(tmp_path_factory.mktemp("run"), settings)
    for name in ("provision", "target", "prepare"):
        attempt = made.stage(name)
        assert attempt.rc == 0, attempt.log
    return made


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """A run of each pair with its environment, and in `targets` the folders that `chat_formats.py` made in it."""
    runs = {}
    for pair in PAIRS:
        run = runs[pair] = Run(tmp_path_factory.mktemp(pair), {"run": {"pair": pair}})
        provision = run.stage("provision")
        assert provision.rc == 0, provision.log
        run.script("chat_formats.py", "make", str(run.folder / "targets"))
    return runs
