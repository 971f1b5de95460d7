"""What a stage tells of its end: the whole traceback on stderr and in the events, and an exit status."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def start(folder: Path, code: str) -> subprocess.Popen[str]:
    (folder / "made_stage.py").write_text(code)
    return subprocess.Popen(
        [sys.executable, "-c", "from pipeline.report import run_stage; run_stage('made_stage')"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{folder}", "EYAS_ATTEMPT": str(folder), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(folder: Path, code: str) -> tuple[int, str]:
    process = start(folder, code)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


CHAIN = """
def inner():
    assert 1 > 2

def main():
    try:
        inner()
    except AssertionError as error:
        raise ValueError("outer, of\\ntwo lines") from error
"""


def test_an_exception_is_told_with_its_chain_from_main_down(tmp_path: Path) -> None:
    rc, errors = finish(tmp_path, CHAIN)
    assert rc == 1
    (event,) = events(tmp_path)
    assert (event["kind"], event["type"], event["message"]) == ("exception", "ValueError", "outer, of\ntwo lines")
    assert event["text"] in errors
    assert "assert 1 > 2" in event["text"]
    assert "direct cause" in event["text"]
    assert "in main" in event["text"]
    assert "run_stage" not in event["text"]


def test_a_module_that_cannot_be_imported_is_told_as_well(tmp_path: Path) -> None:
    rc, errors = finish(tmp_path, "import no_such_module")
    assert rc == 1
    assert events(tmp_path)[0]["type"] == "ModuleNotFoundError"
    assert "no_such_module" in errors


@pytest.mark.parametrize(("code", "status"), [("def main(): pass", 0), ("def main(): raise SystemExit(3)", 3)])
def test_the_exit_status_is_the_stage_s_own(tmp_path: Path, code: str, status: int) -> None:
    assert finish(tmp_path, code)[0] == status
    assert not (tmp_path / "events.jsonl").exists()


def test_a_stop_request_unwinds_the_stage_and_is_no_exception(tmp_path: Path) -> None:
    code = """
import time
def main():
    try:
        print("ready", flush=True)
        time.sleep(600)
    finally:
        print("cleaned up", flush=True)
"""
    process = start(tmp_path, code)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    assert out == "cleaned up\n"
    assert [event["kind"] for event in events(tmp_path)] == ["note"]


def test_events_of_several_processes_never_mix_within_a_line(tmp_path: Path) -> None:
    code = "from compat import record\nfor i in range(300): record.append('note', text='x' * 3000, i=i)"
    env = {**os.environ, "EYAS_ATTEMPT": str(tmp_path)}
    writers = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=env) for _ in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(events(tmp_path)) == 900


def test_a_metric_carries_its_step_where_it_has_one(tmp_path: Path) -> None:
    code = "from pipeline import report\nreport.metric('loss', 0.5, step=10)\nreport.metric('samples', 3)"
    subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "EYAS_ATTEMPT": str(tmp_path)}, check=True
    )
    told = [{key: value for key, value in event.items() if key != "t"} for event in events(tmp_path)]
    assert told == [
        {"kind": "metric", "name": "loss", "value": 0.5, "step": 10},
        {"kind": "metric", "name": "samples", "value": 3},
    ]
