"""Training against stock `speculators train` on the same data with the same flags, monitoring on: ratios of one run.

Both see the same packs in the same order, so seconds from the first step to the last, validation and checkpoints
included, stand for tokens a second. The first step is counted from the process's start.
"""

from __future__ import annotations

import json
import shutil
import signal
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))

import training
from drill import Started
from engine_run import Run

from pipeline import settings, training_data
from pipeline.draft import command, recipe
from pipeline.layers import choose

TURNS = 2


def test_training_against_stock(tmp_path: Path) -> None:
    run = training.ready(tmp_path / "run", samples=80, length=256)
    run.settings["stage"]["train"] = {"epochs": 2, "pack_tokens": 512}
    ours: list[tuple[float, float]] = []
    stock: list[tuple[float, float]] = []
    relaunched = []
    for _ in range(TURNS):
        ours.append(_ours(run))
        shutil.rmtree(run.products / "checkpoints")
        stock.append(_stock(run, tmp_path / "stock"))
        shutil.rmtree(tmp_path / "stock")
        relaunched.append(_relaunched(run))
        shutil.rmtree(run.products / "checkpoints")
    spans = [statistics.median(span for _, span in found) for found in (stock, ours)]
    first = statistics.median(start for start, _ in stock)
    print(f"\ntokens a second: {spans[0] / spans[1]:.2f} of stock's ({spans[1]:.1f} s and {spans[0]:.1f} s)")
    for what, start in (("first", ours[0][0]), ("second", ours[1][0]), ("resumed", statistics.median(relaunched))):
        print(f"start to the first step, {what} run: {start:.1f} s, {start / first:.2f} of stock's {first:.1f} s")


def _ours(run: Run) -> tuple[float, float]:
    """(seconds from the start to the first step, from there to the last)."""
    begun = time.time()
    times = _steps(training.done(run, "train").folder)
    return times[0] - begun, times[-1] - times[0]


def _relaunched(run: Run) -> float:
    """Seconds from the start of a training that goes on inside an epoch to its first step."""
    attempt = Started(run, "train")
    assert attempt.until(lambda: len(_steps(attempt.folder)) > 3)
    attempt.process.send_signal(signal.SIGTERM)
    attempt.process.wait(60)
    begun = time.time()
    attempt = Started(run, "train")
    assert attempt.until(lambda: bool(_steps(attempt.folder)))
    attempt.kill(whole_group=True)
    return _steps(attempt.folder)[0] - begun


def _steps(folder: Path) -> list[float]:
    path = folder / "events.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [event["t"] for event in map(json.loads, lines) if event.get("name") == "loss"]


def _stock(run: Run, place: Path) -> tuple[float, float]:
    wanted = settings.parse(run.settings)
    tokens = training_data.tokens(run.products / "training_data")
    layers = choose(8, None)
    line = command.arguments(
        recipe.recipe(wanted, 0), run.products / "target", layers, run.products, tokens, gpu=False, workers=0
    )
    line = [f"--save-path={place}" if part.startswith("--save-path") else part for part in line]
    output = run.script("speculators_train.py", *line)
    first, span = next(text for text in output.splitlines() if text.startswith("STEPS ")).split()[1:]
    return float(first), float(span)
