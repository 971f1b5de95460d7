"""Training, for real: read by speculators as it is, whole at every moment, and the same to the bit when resumed."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import reports
import training
from drill import Started
from engine_run import Run

from pipeline.draft import checkpoints

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return training.ready(tmp_path_factory.mktemp("training"))


@pytest.fixture(scope="module")
def undisturbed(ready: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A training from beginning to end."""
    run = training.another(ready, tmp_path_factory.mktemp("undisturbed") / "run")
    training.done(run, "train")
    return run


def test_another_draft_vocabulary_needs_no_other_data(ready: Run, tmp_path: Path) -> None:
    words, rows = (ready.products / name for name in ("vocabulary", "training_data"))
    before = json.loads((words / "vocabulary.json").read_text())
    kept = (rows / "eyas-data.json").stat().st_mtime_ns
    assert before["draft_vocabulary"] == 512 and 0.5 < before["coverage"] <= 1
    ready.settings["run"]["draft_vocabulary"] = 16
    try:
        training.done(ready, "vocab")
        after = json.loads((words / "vocabulary.json").read_text())
        assert after["data"] == before["data"] and after["draft_vocabulary"] == 16
        assert after["coverage"] < before["coverage"] and after["missing"] > 0
        assert (rows / "eyas-data.json").stat().st_mtime_ns == kept
    finally:
        ready.settings["run"]["draft_vocabulary"] = 512
        training.done(ready, "vocab")


def test_a_draft_model_is_built_for_targets_of_every_shape(ready: Run, tmp_path: Path) -> None:
    output = ready.script("draft_targets.py", str(tmp_path / "targets"))
    found = {
        line["target"]: line for line in (json.loads(t[6:]) for t in output.splitlines() if t.startswith("DRAFT "))
    }
    assert found.keys() == {"llama", "qwen3", "deepseek_v3", "kimi_k25", "tied", "nested"}
    for name, draft in found.items():
        assert draft["embedding"] and draft["head"], name
        assert draft["repeated"] and draft["loaded"], name
        assert draft["dtype"] == "torch.float32", name
        config = draft["config"]
        verifier = config["speculators_config"]["verifier"]
        assert verifier["name_or_path"] == str(tmp_path / "targets" / name), name
        assert config["transformer_layer_config"]["model_type"] == "llama", name
        assert config["eagle_aux_hidden_state_layer_ids"] == [1, 2, 3], name
    # What a DeepSeek config calls head_dim is its rotary part alone.
    from pipeline.targets import deepseek_v3

    heads = found["kimi_k25"]["config"]["transformer_layer_config"]
    assert heads["head_dim"] == deepseek_v3.SHAPE["v_head_dim"]


def test_training_tells_its_figures_and_ends_with_a_whole_best(undisturbed: Run) -> None:
    record = training.record(undisturbed)
    assert record["finished"] == "All 2 epochs are done."
    assert [entry["epoch"] for entry in record["history"]] == [1, 2]
    assert record["best"]["acceptance"] == max(entry["acceptance"] for entry in record["history"]) > 1.0
    best = checkpoints.best(training.folder(undisturbed))
    assert best.name == record["best"]["checkpoint"]
    assert json.loads((best / "config.json").read_text())["speculators_config"]["algorithm"] == "eagle3"
    lines = (undisturbed.folder / "train" / "1" / "events.jsonl").read_text().splitlines()
    metrics = [event for event in map(json.loads, lines) if event["kind"] == "metric"]
    told = {event["name"] for event in metrics}
    assert {"loss", "accuracy_1", "accuracy_2", "acceptance", "lr", "tokens_per_s", "eta_s"} <= told
    assert {"val/loss", "val/accuracy_2", "val/acceptance", "best_acceptance"} <= told
    steps = [event["step"] for event in metrics if event["name"] == "loss"]
    assert steps == list(range(1, record["history"][-1]["step"] + 1))
    again = training.done(undisturbed, "train")
    assert "Training is over" in again.log


def test_asked_to_stop_it_saves_and_goes_on_from_there(ready: Run, undisturbed: Run, tmp_path: Path) -> None:
    run = training.another(ready, tmp_path / "run", checkpoint_steps=1000)
    attempt = Started(run, "train")
    assert attempt.until(lambda: '"name":"loss"' in _events(attempt.folder))
    attempt.process.send_signal(signal.SIGTERM)
    assert attempt.process.wait(300) == 143, attempt.log[-3000:]
    saved = [checkpoint.step for checkpoint in checkpoints.every(training.folder(run))]
    assert saved and saved[-1] < training.record(undisturbed)["history"][-1]["step"]
    assert "Going on from" in training.done(run, "train").log
    assert _figures(run) == _figures(undisturbed)
    assert training.weights(run) == training.weights(undisturbed)


@pytest.mark.parametrize("shard", [False, True])
def test_two_processes_that_were_killed_go_on_together(ready: Run, tmp_path: Path, shard: bool) -> None:
    whole, run = (training.another(ready, tmp_path / name, gpus=2, shard=shard) for name in ("whole", "run"))
    assert "2 training processes, 2 of them here" in training.done(whole, "train").log
    assert training.record(whole)["finished"] == "All 2 epochs are done."
    attempt = Started(run, "train")
    assert attempt.until(lambda: len(checkpoints.every(training.folder(run))) > 0)
    attempt.kill(whole_group=True)
    deadline = time.monotonic() + 120
    while left := _of(attempt.folder):  # the kernel ends them, as fast as it can
        assert time.monotonic() < deadline, f"processes of a killed training live on: {left}"
        time.sleep(0.05)
    assert "Going on from" in training.done(run, "train").log
    _same(run, whole)


def test_kills_of_training_leave_the_same_draft_model(ready: Run, undisturbed: Run, tmp_path: Path) -> None:
    _drill(ready, undisturbed, tmp_path / "run", kills=3, seed=4)


@pytest.mark.matrix
def test_twenty_kills_at_random_moments(ready: Run, undisturbed: Run, tmp_path: Path) -> None:
    rows = _drill(ready, undisturbed, tmp_path / "run", kills=20, seed=20)
    reports.write("kills-train", reports.table(("kill", "after s", "steps done", "newest checkpoint"), rows))


def _drill(ready: Run, undisturbed: Run, place: Path, kills: int, seed: int) -> list[tuple[object, ...]]:
    """Kills one training after the other; what comes of each that gets through is the undisturbed one's, to the bit."""
    chance = random.Random(seed)
    run = training.another(ready, place)
    rows: list[tuple[object, ...]] = []
    while len(rows) < kills:
        attempt = Started(run, "train")
        begun = time.monotonic()
        if chance.random() < 0.7:  # else before there is anything to lose
            attempt.until(lambda folder=attempt.folder: '"name":"loss"' in _events(folder))  # type: ignore[misc]
            time.sleep(chance.uniform(0, 4))
        else:
            time.sleep(chance.uniform(0, 4))
        if attempt.kill(whole_group=True):
            assert training.torn(run) == []
            names = [checkpoint.folder.name for checkpoint in checkpoints.every(training.folder(run))]
            done = _events(attempt.folder).count('"name":"loss"')
            rows.append((len(rows) + 1, f"{time.monotonic() - begun:.1f}", done, names[-1] if names else "none"))
        else:
            assert attempt.process.returncode == 0, attempt.log[-3000:]
            _same(run, undisturbed)
            shutil.rmtree(training.folder(run))
    training.done(run, "train")
    _same(run, undisturbed)
    return rows


def _same(run: Run, undisturbed: Run) -> None:
    assert training.torn(run) == []
    assert not list(training.folder(run).glob(".*"))
    assert _figures(run) == _figures(undisturbed)
    assert training.weights(run) == training.weights(undisturbed)


def _of(attempt: Path) -> list[str]:
    """Command lines of the processes of an attempt, dataloaders too, by their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"EYAS_ATTEMPT={attempt}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:  # gone, or dead and not yet waited for
            continue
    return found


def _figures(run: Run) -> Any:
    return training.record(run)["history"]


def _events(folder: Path) -> str:
    path = folder / "events.jsonl"
    return path.read_text(errors="replace") if path.exists() else ""
