"""The worker's plugin: found by the entry point on PYTHONPATH, idle until the worker extension is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]

CODE = """
from importlib.metadata import entry_points
(point,) = [p for p in entry_points(group="vllm.general_plugins") if p.name == "eyas_compat"]
point.load()()
import os
before = os.path.exists(os.environ["EYAS_ATTEMPT"] + "/events.jsonl")
import speculators.data_generation.custom_worker as worker
print(before, worker.HiddenStatesWorkerExtension.__name__)
"""


def start(site: Path, attempt: Path, **env: str) -> str:
    attempt.mkdir()
    path = os.pathsep.join([str(ROOT), str(ROOT / "compat" / "plugin"), str(site)])
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "PYTHONPATH": path, "EYAS_ATTEMPT": str(attempt), **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def reported(attempt: Path, patch: str) -> dict[str, Any]:
    events = [json.loads(line) for line in (attempt / "events.jsonl").read_text().splitlines()]
    (event,) = [event for event in events if event["id"] == patch]
    return event


def test_the_plugin_reports_when_the_extension_is_imported_and_not_before(site: Path, tmp_path: Path) -> None:
    out = start(site, tmp_path / "attempt", EYAS_SWITCHES="{}")
    assert out.split() == ["False", "HiddenStatesWorkerExtension"]
    event = reported(tmp_path / "attempt", "embed-input-ids")
    # The stand-in is not the code that the patch was written for, so it must refuse, and say so.
    assert (event["kind"], event["id"], event["state"], event["process"]) == (
        "patch",
        "embed-input-ids",
        "refused",
        "worker",
    )
    assert "custom_worker.py" in event["reason"]


def test_a_patch_switched_off_is_reported_as_off(site: Path, tmp_path: Path) -> None:
    start(site, tmp_path / "attempt", EYAS_SWITCHES='{"off": ["embed-input-ids"]}')
    assert reported(tmp_path / "attempt", "embed-input-ids")["state"] == "off"


def test_outside_a_stage_the_plugin_does_nothing(site: Path, tmp_path: Path) -> None:
    start(site, tmp_path / "attempt")
    assert not (tmp_path / "attempt" / "events.jsonl").exists()
