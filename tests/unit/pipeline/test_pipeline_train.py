"""Training around the trainer: what it is bound to, where it goes on, what is told, and speculators' command line."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pipeline import products, settings, train
from pipeline.draft import checkpoints, command, live, recipe, record
from pipeline.draft.record import Record
from pipeline.layers import choose
from pipeline.problem import Problem
from pipeline.report import StageError

BOUND = Record("d1", "t1", "v1", "r1", {"epochs": 3})


@pytest.fixture(autouse=True)
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EYAS_RUN", str(tmp_path))
    monkeypatch.setenv("EYAS_ATTEMPT", str(tmp_path))
    return tmp_path


def fill(half: Path) -> None:
    (half / "model.safetensors").write_bytes(b"weights")
    (half / checkpoints.RESUME).write_bytes(b"moments")


def entry(epoch: int, acceptance: float) -> dict[str, Any]:
    step = 10 * epoch
    return {
        "epoch": epoch,
        "step": step,
        "checkpoint": checkpoints.name(step),
        "acceptance": acceptance,
        "loss": 1.0,
        "accuracy": [acceptance - 1],
    }


def trained(*acceptance: float, finished: str = "") -> Record:
    """A training on disk with an epoch for each figure."""
    made = Record(**{**asdict(BOUND), "finished": finished})
    for number, value in enumerate(acceptance, 1):
        checkpoints.publish(products.checkpoints(), 10 * number, fill)
        made.history.append(entry(number, value))
    made.write(products.checkpoints())
    assert made.best
    checkpoints.mark_best(products.checkpoints(), made.best["checkpoint"])
    return made


def notes(folder: Path) -> list[str]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [event["text"] for event in map(json.loads, lines) if event["kind"] == "note"]


def test_a_first_training_starts_without_a_word(attempt: Path) -> None:
    assert train.begin(BOUND, 3) == ""
    assert record.read(products.checkpoints()) == BOUND
    assert not (attempt / "events.jsonl").exists()


def test_training_goes_on_from_the_newest_checkpoint(attempt: Path) -> None:
    trained(1.5, 2.0)
    assert train.begin(BOUND, 3) == "step-00000020"
    assert notes(attempt) == ["Going on from step-00000020, after 20 steps."]


def test_after_a_damaged_checkpoint_its_epoch_is_done_again(attempt: Path) -> None:
    trained(1.5, 2.0)
    (products.checkpoints() / "step-00000020" / "model.safetensors").write_bytes(b"")
    assert train.begin(BOUND, 3) == "step-00000010"
    told = notes(attempt)
    assert "step-00000020 is cut short (model.safetensors has 0 of 7 bytes); going on from step-00000010" in told[0]
    found = record.read(products.checkpoints())
    assert found and [e["epoch"] for e in found.history] == [1]


@pytest.mark.parametrize(
    ("part", "words"),
    [("data", "data"), ("target", "target model"), ("vocabulary", "draft vocabulary"), ("recipe", "recipe")],
)
def test_checkpoints_of_anything_else_are_kept_aside_with_a_word(attempt: Path, part: str, words: str) -> None:
    trained(1.5)
    assert train.begin(Record(**{**asdict(BOUND), part: "other"}), 3) == ""
    (told,) = notes(attempt)
    aside = products.checkpoints().with_name("checkpoints-1")
    assert f"of another {words}; they are in {aside} now. Training anew." in told
    assert checkpoints.best(aside).name == "step-00000010"
    assert checkpoints.every(products.checkpoints()) == []


def test_checkpoints_without_a_record_are_kept_aside_too(attempt: Path) -> None:
    trained(1.5)
    (products.checkpoints() / record.FILE).write_text("{")
    assert train.begin(BOUND, 3) == ""
    assert "without a readable training.json" in notes(attempt)[0]


def test_a_training_that_is_over_is_left_alone_until_more_is_asked_for(attempt: Path) -> None:
    trained(1.5, 2.0, 2.5, finished="All 3 epochs are done.")
    assert train.begin(BOUND, 3) is None
    longer = Record(**{**asdict(BOUND), "about": {"epochs": 5}})
    assert train.begin(longer, 5) == "step-00000030"
    found = record.read(products.checkpoints())
    assert found and not found.finished and len(found.history) == 3


def test_a_training_whose_best_is_damaged_is_not_over(attempt: Path) -> None:
    trained(1.5, 2.5, 2.0, finished="All 3 epochs are done.")
    (products.checkpoints() / "best" / "model.safetensors").write_bytes(b"")
    assert train.begin(BOUND, 3) == "step-00000030"


def test_in_the_place_of_a_damaged_best_the_best_of_the_whole_ones_counts_from_then_on(attempt: Path) -> None:
    trained(1.5, 2.5, 2.0, finished="All 3 epochs are done.")
    (products.checkpoints() / "best" / "model.safetensors").write_bytes(b"")
    train.begin(BOUND, 3)
    assert checkpoints.best(products.checkpoints()).name == "step-00000030"
    told = notes(attempt)[0]
    assert "step-00000020 is cut short (model.safetensors has 0 of 7 bytes)" in told
    assert "step-00000030 is the best that is whole: simulated acceptance 2.000 in place of 2.500." in told
    found = record.read(products.checkpoints())
    assert found and found.best and found.best["epoch"] == 3 and found.stale == 0


def test_the_best_is_lost_when_none_of_those_that_were_judged_is_whole(attempt: Path) -> None:
    trained(1.5, 2.5)
    checkpoints.publish(products.checkpoints(), 25, fill)  # inside the third epoch
    for step in ("step-00000010", "step-00000020"):
        (products.checkpoints() / step / "model.safetensors").write_bytes(b"")
    assert train.begin(BOUND, 3) == "step-00000025"
    found = record.read(products.checkpoints())
    assert found and len(found.history) == 2 and found.best is None and found.stale == 0
    assert "no other that was judged is whole; the epochs to come decide" in notes(attempt)[0]


def test_a_kill_between_the_record_and_the_link_leaves_no_older_best(attempt: Path) -> None:
    trained(1.5, 2.5, 2.0)
    checkpoints.mark_best(products.checkpoints(), "step-00000010")
    train.begin(BOUND, 3)
    assert checkpoints.best(products.checkpoints()).name == "step-00000020"
    (products.checkpoints() / "best").unlink()
    train.begin(BOUND, 3)
    assert checkpoints.best(products.checkpoints()).name == "step-00000020"
    assert all(text.startswith("Going on") for text in notes(attempt))


def test_the_best_is_the_one_of_the_highest_acceptance_and_not_of_the_lowest_loss() -> None:
    made = Record("d", "t", "v", "r", history=[entry(1, 2.0), {**entry(2, 1.9), "loss": 0.1}, entry(3, 2.0)])
    assert made.best == entry(1, 2.0)
    assert made.stale == 2
    assert Record("d", "t", "v", "r").stale == 0


@pytest.mark.parametrize(("samples", "processes", "fits"), [(2, 1, True), (1, 1, False), (15, 2, True), (9, 2, False)])
def test_each_process_needs_a_sample_to_learn_from_and_one_to_validate(
    samples: int, processes: int, fits: bool
) -> None:
    if fits:
        train.check_split(samples, processes)
    else:
        with pytest.raises(StageError, match=rf"has {samples} samples, .* raise run\.samples"):
            train.check_split(samples, processes)


def test_more_gpus_than_there_are_is_refused() -> None:
    train.check_gpus(4, 4)
    train.check_gpus(2, 0)  # processes on the CPU
    with pytest.raises(StageError, match=r"stage\.train\.gpus is 8, and the host shows this stage 4; lower it to 4"):
        train.check_gpus(8, 4)


def test_acceptance_is_one_and_the_shares_of_whole_prefixes() -> None:
    metrics = {"loss": 0.5, "full_acc_0": 0.9, "full_acc_1": 0.5, "cond_acc_1": 0.6, "full_acc_2": 0.25}
    found = live.figures(metrics)
    assert found == {"loss": 0.5, "accuracy_1": 0.9, "accuracy_2": 0.5, "accuracy_3": 0.25, "acceptance": 2.65}
    assert live.figures({"loss_epoch": 1.0, "full_acc_0_epoch": 0.5}, "_epoch")["acceptance"] == 1.5


def test_what_the_trainer_logs_is_told_as_events(attempt: Path) -> None:
    logger = logging.getLogger("speculators.metrics")
    told = live.Live(steps=4, done=0)
    told.attach()
    logger.setLevel(logging.INFO)
    try:
        for step in range(4):
            message = {
                "train": {"loss": 1.0 / (step + 1), "full_acc_0": 0.5},
                "profile": {"tokens_per_s": 100.0},
                "epoch": 0,
                "lr": {"Muon": 1e-2, "AdamW": 1e-3},
                "global_step": step,
            }
            logger.info(message, extra={"step": step})
        logger.info({"val": {"loss_epoch": 0.3, "full_acc_0_epoch": 0.75}, "epoch": 0}, extra={"step": 4})
        logger.info("a word of no interest")
    finally:
        logger.handlers, logger.propagate = [], True
    events = [json.loads(line) for line in (attempt / "events.jsonl").read_text().splitlines()]
    metrics = {(e["name"], e["step"]): e["value"] for e in events if e["kind"] == "metric"}
    assert metrics["loss", 1] == 1.0 and metrics["loss", 4] == 0.25
    assert metrics["acceptance", 2] == 1.5 and metrics["accuracy_1", 2] == 0.5
    assert metrics["lr", 1] == 1e-2
    assert metrics["tokens_per_s", 4] == 100.0
    assert metrics["eta_s", 4] == 0.0
    assert metrics["val/acceptance", 4] == 1.75
    assert told.validated and told.validated["loss"] == 0.3
    assert [(e["done"], e["total"]) for e in events if e["kind"] == "progress"][-1] == (4, 4)


def wanted(**of_train: object) -> settings.Settings:
    return settings.parse({"run": {"target": "/models/a", "max_length": 2048}, "stage": {"train": of_train}})


def test_a_recipe_fills_in_what_was_left_out() -> None:
    on_gpu, on_cpu = recipe.recipe(wanted(), 4), recipe.recipe(wanted(), 0)
    assert (on_gpu.epochs, on_gpu.lr, on_gpu.optimizer) == (3, 1e-3, "muon")
    assert (on_gpu.pack_tokens, on_gpu.processes) == (8192, 4)
    assert (on_cpu.pack_tokens, on_cpu.processes) == (2048, 1)  # no sample is cut to the pack
    asked = recipe.recipe(wanted(epochs=7, lr=0.5, optimizer="adamw", pack_tokens=4096, gpus=2, **MEETING), 8)
    assert (asked.epochs, asked.lr, asked.optimizer) == (7, 0.5, "adamw")
    assert (asked.pack_tokens, asked.processes) == (4096, 6)
    assert recipe.recipe(settings.parse({}), 0).lr == recipe.TINY_LR


MEETING = {"nodes": 3, "rendezvous": "first:29500"}


def test_a_training_may_be_prolonged_and_changed_in_nothing_else() -> None:
    assert recipe.recipe(wanted(epochs=9), 1).digest == recipe.recipe(wanted(), 1).digest
    for other in ({"lr": 2e-3}, {"ttt_steps": 5}, {"norms": []}, {"gpus": 2}, {"optimizer": "adamw"}):
        assert recipe.recipe(wanted(**other), 1).digest != recipe.recipe(wanted(), 1).digest


def test_several_hosts_need_a_place_to_meet() -> None:
    with pytest.raises(Problem, match=r"stage\.train\.nodes is 2, and stage\.train\.rendezvous is '', which names no"):
        wanted(nodes=2)
    with pytest.raises(Problem, match=r"stage\.train\.node_rank is 3"):
        wanted(node_rank=3, **MEETING)


def test_the_command_line_is_speculators_own() -> None:
    made = recipe.recipe(wanted(norms=["norm_output"]), 1)
    line = command.arguments(made, Path("/models/a"), choose(36, None), Path("/run/products"), 10**9, True, 8)
    for part in (
        "--verifier-name-or-path=/models/a",
        "--data-path=/run/products/training_data",
        "--hidden-states-path=/run/products/hidden_states",
        "--no-norm-before-fc",
        "--norm-output",
        "--hidden-states-dtype=bfloat16",
        "--loss-implementation=fused",
        f"--log-freq={3 * 10**9 // 8192 // command.LOGGED}",
    ):
        assert part in line
    at = line.index("--target-layer-ids")
    assert line[at : at + 4] == ["--target-layer-ids", "2", "18", "33"]
    on_cpu = command.arguments(made, Path("/models/a"), choose(36, None), Path("/p"), 100, False, 0)
    assert {"--hidden-states-dtype=float32", "--loss-implementation=eager", "--log-freq=1"} <= set(on_cpu)
