"""A run repeated from its archive on another workstation, by the real stages: the same samples, figure by figure."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workstation import Workstation

pytestmark = pytest.mark.engine

SECRET = "open-sesame-42"
PROJECT = """
project = "travels"
[host.here]
embedded = true
pass_env = ["MY_SECRET"]
[run]
target = "tiny"
conversations = "CHAT"
pair = "current"
samples = 6
max_length = 128
until = "prepare"
draft_vocabulary = 512
[stage.target]
steps = 3
"""
CHAT = [
    {"messages": [{"role": "user", "content": f"What is {n}?"}, {"role": "assistant", "content": f"A number, {n}."}]}
    for n in range(6)
]


@pytest.fixture(scope="module")
def bundled(make_workstation: Callable[[str], Workstation]) -> tuple[Path, dict[str, Any]]:
    """The archive of a run of the first three stages, and what `eyas bundle` answered."""
    first = make_workstation("first")
    chat = first.folder / "chat.jsonl"
    chat.write_text("".join(json.dumps(row) + "\n" for row in CHAT))
    (first.folder / "eyas.toml").write_text(PROJECT.replace("CHAT", str(chat)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MY_SECRET", SECRET)
        run = first.json("run")
        answer = first.json("bundle", "-o", str(first.folder / "run.tar.gz"))
    assert answer["run"] == run["run"]
    return first.folder / "run.tar.gz", answer


def test_the_archive_says_what_is_inside_and_holds_no_value_that_was_handed_on(
    bundled: tuple[Path, dict[str, Any]],
) -> None:
    file, answer = bundled
    assert (answer["pass_env"], answer["not_looked_for"]) == (["MY_SECRET"], [])
    assert "conversations/chat.jsonl" in answer["files"] and "products/dataset/dataset.jsonl" in answer["files"]
    with tarfile.open(file) as tar:
        inside = b"".join(found.read() for name in tar.getnames() if (found := tar.extractfile(name)))
    assert b"MY_SECRET" in inside and SECRET.encode() not in inside
    assert os.environ.get("MY_SECRET") is None


def test_another_workstation_repeats_it_and_finds_every_figure_equal(
    bundled: tuple[Path, dict[str, Any]], make_workstation: Callable[[str], Workstation]
) -> None:
    file, answer = bundled
    second = make_workstation("second")
    report = second.json("run", "--from-bundle", str(file))
    assert report["equal"] and set(report["figures"]) == {"samples", "tokenizer"}
    assert report["verdict"] == "All 2 figures are equal to the bundle's."
    (run,) = second.runs.iterdir()
    settings = json.loads((run / "run.json").read_text(encoding="utf-8"))["settings"]
    assert Path(settings["run"]["conversations"]).is_relative_to(second.folder)
    again = second.json("bundle", "--against", str(file))
    assert again["figures"] == report["figures"] and again["run"] == run.name
    packed = second.json("bundle", "-o", str(second.folder / "again.tar.gz"))
    assert packed["figures"] == answer["figures"]


def test_other_samples_are_seen(
    bundled: tuple[Path, dict[str, Any]], make_workstation: Callable[[str], Workstation]
) -> None:
    other = make_workstation("other")
    (other.folder / "eyas.toml").write_text(PROJECT.replace("CHAT", "stdlib"))
    other.json("run")
    report = other.json("bundle", "--against", str(bundled[0]), status=1)
    assert not report["figures"]["samples"]["equal"] and report["figures"]["tokenizer"]["equal"]
