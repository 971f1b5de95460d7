"""The whole demo on the current pair alone: from nothing to a draft model whose served acceptance is measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workstation import Workstation

pytestmark = pytest.mark.engine

STAGES = "provision target prepare extract verify vocab loadcheck train evaluate export"


@pytest.fixture(scope="module")
def run(make_workstation: Callable[..., Workstation]) -> dict[str, Any]:
    return make_workstation("demo").json("demo", "--headless")


@pytest.fixture(scope="module")
def evaluation(run: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(run["folder"]) / "products" / "evaluation.json").read_text())
    return found


def test_every_stage_succeeds_in_one_environment(run: dict[str, Any]) -> None:
    assert [(stage["name"], stage["state"]) for stage in run["stages"]] == [(name, "done") for name in STAGES.split()]
    assert run["pair"] == "current"
    pythons = {
        json.loads((Path(run["folder"]) / name / "1" / "spec.json").read_text())["argv"][0]
        for name in STAGES.split()
        if name != "provision"
    }
    assert len(pythons) == 1


def test_the_draft_model_is_worth_it_and_the_untrained_one_is_not(evaluation: dict[str, Any]) -> None:
    sets = {one["name"]: one for one in evaluation["sets"]}
    assert {"held-out", "trained", "everyday"} == set(sets)
    assert sets["held-out"]["served"]["acceptance_length"] >= 2.0
    assert sets["held-out"]["untrained"]["acceptance_length"] < 1.2


def test_served_equals_simulated_and_no_answer_is_another_than_the_target_s_own(evaluation: dict[str, Any]) -> None:
    for one in evaluation["sets"]:
        assert one["agree"] is True and one["lossless"] is True, one["name"]
        assert one["served"]["acceptance_length"] == one["simulated"]["acceptance_length"]


def test_the_export_is_there_with_its_card(run: dict[str, Any]) -> None:
    export = Path(run["folder"]) / "products" / "export"
    card = (export / "README.md").read_text(encoding="utf-8")
    assert run["run"] in card
    assert (export / "config.json").is_file() and list(export.glob("*.safetensors"))
