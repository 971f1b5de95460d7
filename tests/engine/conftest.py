"""A real seed environment, real tiny targets and a dataset, made once for all engine tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import sibling
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


@pytest.fixture(scope="session")
def target(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny target of a type (`tiny-qwen3`), hardly trained, made when it is first asked for."""

    @cache
    def made(name: str) -> Path:
        if name == "tiny":
            return run.products / "target"
        settings = {"run": {"target": name}, "stage": {"target": {"steps": 6}}}
        one = Run(tmp_path_factory.mktemp(name), settings)
        attempt = one.stage("target")
        assert attempt.rc == 0, attempt.log
        return one.products / "target"

    return made


@pytest.fixture(scope="session")
def release(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """A run whose environment has another release of speculators, on the same vLLM."""

    @cache
    def made(speculators: str) -> Run:
        if speculators == "0.3.0":
            return run
        python = sibling.make(Path(run.plan["extract"]["argv"][0]), speculators)
        return Run(tmp_path_factory.mktemp("release"), {"environment": {"seed": {"python": str(python)}}})

    return made
