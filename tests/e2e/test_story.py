"""The story of the first light: a real failing extraction, seen, mended and relaunched, by commands and by keys."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from terminal import Terminal
from workstation import EYAS, Workstation

pytestmark = pytest.mark.engine

STAGES = ["provision", "target", "prepare", "extract"]
BREAK = ("demo", "--break", "prefix-caching", "--until", "extract")
"""Takes the seed pair by itself: there the patch matters."""
SMALL = {"EYAS_RUN__SAMPLES": "64", "EYAS_RUN__DTYPE": "auto", "EYAS_STAGE__TARGET__STEPS": "60"}


@pytest.fixture(scope="module")
def broken(make_workstation: Callable[..., Workstation]) -> tuple[Workstation, dict[str, Any]]:
    """A demo whose extraction failed for want of one patch, made by command."""
    workstation = make_workstation("broken", **SMALL)
    return workstation, workstation.json(*BREAK, "--headless", status=1)


def stage_states(run: dict[str, Any]) -> dict[str, str]:
    return {stage["name"]: stage["state"] for stage in run["stages"]}


def products(run: dict[str, Any]) -> Path:
    return Path(run["folder"]) / "products"


def check_hidden_states(run: dict[str, Any], samples: int) -> None:
    """As many samples as were asked for, each with the digest that the manifest has for it."""
    folder = products(run) / "hidden_states"
    manifest = [json.loads(line) for line in (folder / "manifest.jsonl").read_text(encoding="utf-8").splitlines()]
    lines = [line for line in manifest if "index" in line]
    assert sorted({line["index"] for line in lines}) == list(range(samples))
    for line in lines:
        data = (folder / f"hs_{line['index']}.safetensors").read_bytes()
        assert hashlib.sha256(data).hexdigest() == line["sha256"]


def test_without_its_patch_the_extraction_fails_and_the_traceback_is_whole(
    broken: tuple[Workstation, dict[str, Any]],
) -> None:
    workstation, run = broken
    assert (run["pair"], run["versions"]["vllm"]) == ("seed", "0.16.0")
    assert stage_states(run) == dict(zip(STAGES, ["done", "done", "done", "failed"], strict=True))
    report = workstation.json("tracebacks")
    root = report["tracebacks"][report["root_cause"]]
    assert (root["exception_type"], root["message"]) == ("AssertionError", "")
    assert root["innermost"]["function"] == "cache_full_blocks"
    assert "block_hashes" in root["innermost"]["source"]
    functions = [frame["function"] for frame in root["frames"]]
    assert functions[0] == "main" and "generate" in functions and "schedule" in functions
    assert root["patch"] == "prefix-caching"
    assert report["reason"]


def test_the_command_line_says_it_in_words_too(broken: tuple[Workstation, dict[str, Any]]) -> None:
    workstation, _ = broken
    words = workstation.eyas("tracebacks").stdout
    assert "[root cause] AssertionError" in words and "patch prefix-caching" in words
    status = workstation.eyas("status").stdout
    assert "✖ extract" in status and "✔ prepare" in status


def test_a_sample_is_shown_with_its_loss_mask(broken: tuple[Workstation, dict[str, Any]]) -> None:
    workstation, run = broken
    sample = workstation.json("prepare", "--show", "3")
    rows = [json.loads(line) for line in (products(run) / "dataset" / "dataset.jsonl").read_text().splitlines()]
    assert (sample["index"], sample["tokens"]) == (3, len(rows[3]["token_ids"]))
    assert sample["trained"] == sum(rows[3]["loss_mask"]) == sum(r["tokens"] for r in sample["runs"] if r["trained"])
    for before, after in itertools.pairwise(sample["runs"]):
        if after["trained"]:
            assert before["text"].endswith("<|im_assistant|>assistant<|im_middle|>")
            assert after["text"].endswith("<|im_end|>")
    said = workstation.eyas("prepare", "--show", "3")
    assert said.returncode == 0 and "\x1b" not in said.stdout
    assert [line for line in said.stdout.splitlines() if line.startswith("+ ")][-1].endswith("<|im_end|>")
    beyond = workstation.eyas("prepare", "--show", "9999")
    assert beyond.returncode == 2 and "Give a number from 0 to" in beyond.stderr


def test_the_patch_is_off_and_says_so(broken: tuple[Workstation, dict[str, Any]]) -> None:
    workstation, _ = broken
    patches = {patch["id"]: patch for patch in workstation.json("patches")["patches"]}
    assert (patches["prefix-caching"]["state"], patches["prefix-caching"]["switch"]) == ("off", "off")
    assert patches["scheduler-block-size"]["state"] in ("needed", "active")


def test_switched_on_and_relaunched_it_succeeds(broken: tuple[Workstation, dict[str, Any]]) -> None:
    """The same run goes on: the stages before are not done again."""
    workstation, before = broken
    workstation.json("patches", "on", "prefix-caching")
    run = workstation.json("relaunch", "extract")
    assert run["run"] == before["run"]
    assert stage_states(run) == dict.fromkeys(STAGES, "done")
    attempts = {stage["name"]: len(stage["attempts"]) for stage in run["stages"]}
    assert attempts == {"provision": 1, "target": 1, "prepare": 1, "extract": 2}
    check_hidden_states(run, samples=64)
    assert workstation.json("tracebacks", "extract", "--attempt", "1")["root_cause"] is not None
    assert workstation.json("tracebacks", "extract")["tracebacks"] == []


@pytest.mark.terminal
def test_the_same_by_keys_at_80x24(make_workstation: Callable[..., Workstation]) -> None:
    """r, p, space: from the failure to green without a command line."""
    workstation = make_workstation("keys", **SMALL)
    with Terminal([EYAS, *BREAK], 80, 24, workstation.env, workstation.folder) as terminal:
        terminal.wait_for("provision", "target", "prepare", "extract", timeout=60)
        terminal.wait_for("✖ extract", timeout=900)
        terminal.press("t")
        terminal.wait_for("AssertionError", "cache_full_blocks", "prefix-caching")
        terminal.press("p")
        terminal.wait_for("enable_prefix_caching", "prefix-caching")
        terminal.press("Space")
        terminal.wait_for("switch on")
        terminal.press("1", "r")
        terminal.wait_for("▶ extract", timeout=60)
        terminal.wait_for("✔ extract", timeout=300, absent=["✖"])
        terminal.press("q")
        terminal.wait_ended()
    run = workstation.json("status")
    assert stage_states(run) == dict.fromkeys(STAGES, "done")
    check_hidden_states(run, samples=64)


@pytest.mark.terminal
def test_the_console_attaches_to_a_finished_run_at_200x60(broken: tuple[Workstation, dict[str, Any]]) -> None:
    workstation, run = broken
    with Terminal([EYAS], 200, 60, workstation.env, workstation.folder) as terminal:
        terminal.wait_for(run["run"], "provision", "extract", "GPU", timeout=60)
        terminal.press("4")
        terminal.wait_for("scheduler-block-size", "prefix-caching")
        terminal.press("?")
        terminal.wait_for("Relaunch the failed stage")
        terminal.press("Escape")
        terminal.wait_for("scheduler-block-size", absent=["Keys of the patches view"])
        terminal.press("q")
        terminal.wait_ended()
