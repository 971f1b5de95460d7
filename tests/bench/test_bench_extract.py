"""Extraction beside plain prefill, beside what speculators itself has for it, and the data beside `torch.load`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from bench.figures import show
from drill import run_of, samples
from engine_run import ROOT, Run
from extraction_server import Server

ROUNDS = 3
COUNT = 256
LONGEST = 180
FINISHED = 10_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a target, made when it is first asked for."""

    @cache
    def of(target: str) -> Path:
        settings = {"run": {"pair": "current", "target": target}, "stage": {"target": {"steps": 6}}}
        one = Run(tmp_path_factory.mktemp(target), settings)
        for name in ("provision", "target"):
            attempt = one.stage(name)
            assert attempt.rc == 0, attempt.log
        return one.products / "target"

    return of


def script(run: Run, name: str, *arguments: object) -> dict[str, Any]:
    """Runs a script of `bench/extraction` in the environment of the run's extract stage."""
    stage = run.plan["extract"]
    command = [stage["argv"][0], str(ROOT / "tests" / "bench" / "extraction" / name), *map(str, arguments)]
    env = {**os.environ, **stage["env"], "EYAS_SWITCHES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=run.folder, timeout=3600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    # vLLM may say something behind it, on its way out.
    found: dict[str, Any] = json.loads(done.stdout.rpartition("RESULT ")[2].splitlines()[0])
    return found


def told(found: dict[str, Any], what: str, of: str, name: str) -> None:
    seconds = found["seconds"]
    show(f"{what}, {found['tokens']} tokens", seconds[what], statistics.median(seconds[of]), name)


@pytest.mark.parametrize(("name", "count"), [("tiny", COUNT), ("smollm2", 32)])
def test_extraction_on_the_current_pair(name: str, count: int, made: Callable[[str], Path], tmp_path: Path) -> None:
    """On a tiny target the files cost as much as the forward; SmolLM2 has 135 million weights."""
    target = made(name)
    run = run_of(tmp_path / "run", target, samples(count, LONGEST), "current", {"max_length": LONGEST})
    server = Server(run, target, tmp_path, LONGEST)
    try:
        server.wait()
        found = script(run, "rates.py", "current", run.products, tmp_path, ROUNDS, server.endpoint)
    finally:
        server.kill()
    told(found, "extract", "prefill", "vLLM's plain prefill")
    for what in ("extract", "served"):
        told(found, what, "offline", "speculators generate-offline-data")


def test_extraction_on_the_seeds_pair(made: Callable[[str], Path], tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", made("tiny"), samples(COUNT, LONGEST), "seed")
    assert run.stage("provision").rc == 0
    told(script(run, "rates.py", "seed", run.products, tmp_path, ROUNDS), "extract", "loop", "speculators' own loop")


def test_a_finished_extraction_is_found_finished_and_its_data_are_read(
    made: Callable[[str], Path], tmp_path: Path
) -> None:
    settings = {"run": {"pair": "current", "samples": FINISHED}, "stage": {"extract": {"backend": "transformers"}}}
    run = Run(tmp_path / "run", settings)
    run.products.mkdir()
    (run.products / "target").symlink_to(made("tiny"))
    size = script(run, "finished.py", run.folder, FINISHED, json.dumps(settings))["bytes"]
    known, read = [], []
    for _ in range(ROUNDS):
        known.append(relaunched(run))
    for path in (run.products / "hidden_states").glob("hs_*"):
        os.utime(path)  # its stamp does not fit any more
    for _ in range(ROUNDS):
        read.append(relaunched(run))
    show(f"stage extract, {FINISHED} samples there", known, statistics.median(read), f"all {size >> 20} MB read whole")
    (tmp_path / "saved").mkdir()
    taken = script(run, "reading.py", run.products, tmp_path / "saved", ROUNDS)
    show("an epoch read", taken["safetensors"], statistics.median(taken["torch.load"]), "torch.load")


def relaunched(run: Run) -> float:
    began = time.perf_counter()
    attempt = run.stage("extract")
    assert attempt.rc == 0, attempt.log
    assert "nothing to extract" in attempt.events("note")[-1]["text"]
    return time.perf_counter() - began
