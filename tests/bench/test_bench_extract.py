"""Extraction beside plain prefill, beside what speculators itself has for it, and the data beside `torch.load`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
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
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with a tiny target."""
    one = Run(tmp_path_factory.mktemp("made"), {"run": {"pair": "current"}, "stage": {"target": {"steps": 6}}})
    for name in ("provision", "target"):
        attempt = one.stage(name)
        assert attempt.rc == 0, attempt.log
    return one


def script(run: Run, name: str, *arguments: object) -> dict[str, Any]:
    """Runs a script of `bench/extraction` in the environment of the run's extract stage."""
    stage = run.plan["extract"]
    command = [stage["argv"][0], str(ROOT / "tests" / "bench" / "extraction" / name), *map(str, arguments)]
    env = {**os.environ, **stage["env"], "EYAS_SWITCHES": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=run.folder, timeout=3600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    found: dict[str, Any] = json.loads(done.stdout.rpartition("RESULT ")[2])
    return found


def told(found: dict[str, Any], what: str, of: str, name: str) -> None:
    seconds = found["seconds"]
    show(f"{what}, {found['tokens']} tokens", seconds[what], statistics.median(seconds[of]), name)


def test_extraction_on_the_current_pair(made: Run, tmp_path: Path) -> None:
    run = run_of(
        tmp_path / "run", made.products / "target", samples(COUNT, LONGEST), "current", {"max_length": LONGEST}
    )
    server = Server(run, made.products / "target", tmp_path, LONGEST)
    try:
        server.wait()
        found = script(run, "rates.py", "current", run.products, tmp_path, ROUNDS, server.endpoint)
    finally:
        server.kill()
    for what in ("extract", "extract, batches of 8"):
        told(found, what, "prefill", "vLLM's plain prefill")
        told(found, what, "offline", "speculators generate-offline-data")
    told(found, "served", "offline", "speculators generate-offline-data")


def test_extraction_on_the_seeds_pair(made: Run, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", made.products / "target", samples(COUNT, LONGEST), "seed")
    assert run.stage("provision").rc == 0
    told(script(run, "rates.py", "seed", run.products, tmp_path, ROUNDS), "extract", "loop", "speculators' own loop")


def test_a_finished_extraction_is_found_finished_and_its_data_are_read(made: Run, tmp_path: Path) -> None:
    settings = {"run": {"pair": "current", "samples": FINISHED}, "stage": {"extract": {"backend": "transformers"}}}
    run = Run(tmp_path / "run", settings)
    run.products.mkdir()
    (run.products / "target").symlink_to(made.products / "target")
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
