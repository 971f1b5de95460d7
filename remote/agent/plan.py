"""Asking the bundle's pipeline for a plan, the state of its patches or the drift, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remote.agent.layout import is_stage_name
from remote.protocol import RemoteError

PATIENCE = 300.0
"""Seconds; a plan reads package metadata on what may be a slow network file system."""


@dataclass(frozen=True)
class Plan:
    """What a run will do: the stages in order, each with name, title, argv, env, cwd, grace_s."""

    pair: str
    versions: dict[str, str]
    stages: list[dict[str, Any]]


def make_plan(settings: Mapping[str, Any], run_folder: str, bundle: str) -> Plan:
    """Raises RemoteError: the pipeline's own refusal, or internal when it gives no plan."""
    given = {"settings": settings, "run_folder": run_folder, "python": sys.executable, "bundle": bundle}
    answer = ask_pipeline("plan", given, bundle)
    stages = answer.get("stages")
    if not isinstance(stages, list) or not stages or not all(_is_stage(stage) for stage in stages):
        raise RemoteError("internal", "the pipeline's plan holds no stages, or one without a name and arguments")
    return Plan(str(answer.get("pair", "")), dict(answer.get("versions") or {}), stages)


def _is_stage(stage: Any) -> bool:
    if not isinstance(stage, dict) or not is_stage_name(stage.get("name")):
        return False
    argv = stage.get("argv")
    return isinstance(argv, list) and bool(argv) and all(isinstance(part, str) and "\0" not in part for part in argv)


def ask_pipeline(command: str, given: Mapping[str, Any], bundle: str) -> dict[str, Any]:
    """`python -m pipeline COMMAND` with `given` as its input. Raises RemoteError."""
    environment = {**os.environ, "PYTHONPATH": bundle}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", command],
            input=json.dumps(given).encode(),
            capture_output=True,
            cwd=bundle,
            env=environment,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RemoteError("internal", f"`pipeline {command}` has not answered for {PATIENCE:.0f} s") from None
    except OSError as error:
        raise RemoteError("internal", f"cannot run `pipeline {command}`: {error.strerror}") from None
    answer = _object(done.stdout)
    if answer is not None and isinstance(answer.get("error"), dict):
        raise RemoteError.from_wire(answer["error"])
    if done.returncode != 0 or answer is None:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no word on standard error"]
        raise RemoteError("internal", f"`pipeline {command}` failed (exit {done.returncode}): {said[-1][:500]}")
    return answer


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
