"""The stage verify on real states: it passes what is right, names what is wrong, stops, and lets it be mended."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from engine_run import Run

pytestmark = pytest.mark.engine

NAMES = {
    "truncated": "truncated",
    "prefix_cache_hit": "prefix-cache hit",
    "prefix_cache_hit_guarded": "prefix-cache hit",
    "shifted_by_one": "shifted",
    "shifted_order": "shifted",
    "wrong_slots": "shifted",
    "norm_twice": "norm twice",
    "numbers_differ": "numbers differ",
    "rows_too_many": "rows too many",
    "altered_file": "altered file",
    "truncated_file": "truncated file",
    "file_missing": "file missing",
    "not_extracted": "not extracted",
    "other_tokens": "other tokens",
    "other_max_length": "other max_length",
    "layers_named_wrongly": "wrong layer",
    "nan": "NaN",
    "infinite": "NaN",
    "zeros": "zeros",
    "layers_missing": "layers missing",
    "unreadable_file": "unreadable file",
    "wrong_shape": "wrong shape",
    "mask_shifted": "mask shifted",
    "empty_mask": "empty mask",
    "empty_masks": "empty masks",
    "mask_of_another_row": "mask of another row",
    "conversations_lost": "conversations lost",
}
"""What `spoil.py` injects → what the stage must call it."""


def copied(
    run: Run,
    folder: Path,
    backend: str,
    off: tuple[str, ...] = (),
    layers: list[int] | None = None,
    max_length: int = 128,
) -> Run:
    """A run of its own over the target of another and 24 samples, with states of its own."""
    given = {**run.settings["run"], "samples": 24, "batch_size": 8, "draft_vocabulary": 512}
    settings: dict[str, Any] = {
        "run": {**given, "max_length": max_length},
        "stage": {"extract": {"backend": backend}},
    }
    if layers:
        settings["run"]["layers"] = layers
    made = Run(folder, settings)
    shutil.copytree(run.products / "target", made.products / "target")
    (folder / "settings.json").write_text(json.dumps(settings))
    for stage in ("prepare", "extract"):
        attempt = made.stage(stage, off=off)
        assert attempt.rc == 0, attempt.log
    return made


@pytest.fixture(scope="module")
def plain(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return copied(run, tmp_path_factory.mktemp("plain"), "transformers")


def told(output: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(output.rpartition("RESULT ")[2].splitlines()[0])
    return found


def verdict(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.products / "verify.json").read_text())
    return found


def lines(run: Run) -> list[dict[str, Any]]:
    path = run.products / "hidden_states" / "manifest.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_right_states_pass_and_a_fault_stops_the_run_until_its_samples_are_made_again(plain: Run) -> None:
    first = plain.stage("verify")
    assert first.rc == 0, first.log
    gates = {report["gate"] for report in verdict(plain)["reports"]}
    assert gates == {
        *("dataset", "loss-mask", "checksums", "origin", "rows", "finite"),
        *("aux-layers", "attribution", "final-norm", "rotary"),
    }
    assert verdict(plain)["left_out"] == {}
    second = plain.stage("verify")
    assert second.rc == 0
    assert any("have passed already" in event["text"] for event in second.events("note"))

    right = (plain.products / "hidden_states" / "hs_3.safetensors").read_bytes()
    plain.script("spoil.py", str(plain.products), "nan")
    third = plain.stage("verify")
    assert third.rc == 1
    (event,) = third.events("exception")
    assert event["type"] == "pipeline.report.StageError"
    assert "NaN (finite): 1 of 24 samples, sample 3 (conversation 3 of stdlib): 1 values in 1 of" in event["message"]
    assert "Relaunch extract" in event["message"]
    assert not verdict(plain)["passed"]
    assert [line["index"] for line in lines(plain) if line.get("condemned") == "NaN"] == [3]

    again = plain.stage("extract")
    assert again.rc == 0, again.log
    assert any("verify condemned them (NaN)" in event["text"] for event in again.events("note"))
    assert (plain.products / "hidden_states" / "hs_3.safetensors").read_bytes() == right
    assert plain.stage("verify").rc == 0
    assert verdict(plain)["passed"]


def test_every_fault_that_is_injected_is_named(plain: Run) -> None:
    found = told(plain.script("verify_drill.py", "spoilt", "transformers", str(plain.folder), "clean", *NAMES))
    assert {name: result["fault"] for name, result in found.items()} == {"clean": "", **NAMES}
    for name, result in found.items():
        if name != "clean":
            assert f"{result['fault']} (" in result["sentence"]


def test_the_engine_that_extracted_is_asked_and_what_it_loses_is_told(run: Run, tmp_path: Path) -> None:
    # 32 prompts run at a time: only longer ones than 256 tokens fill more than a step, 8192 tokens, and can be cut.
    made = copied(run, tmp_path / "generator", "generator", max_length=512)
    # row-attribution would notice the cut and raise: without it the engine silently loses rows of long batches.
    attempt = made.stage("verify", off=("chunked-prefill", "row-attribution"))
    assert attempt.rc == 1
    (event,) = attempt.events("exception")
    assert "truncated (attribution): in a batch: " in event["message"]
    assert "Switched off here: chunked-prefill, row-attribution." in event["message"]
    assert sum("condemned" in line for line in lines(made)) == 24
    attempt = made.stage("verify")  # its states were right all along: the engine that has its patches says so
    assert attempt.rc == 0, attempt.log
    assert any("24 samples that were condemned before have passed" in e["text"] for e in attempt.events("note"))
    assert "condemned" not in lines(made)[-1]
