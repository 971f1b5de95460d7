"""A host with a tiny pipeline of shell stages: real supervisors, real processes, real kills."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from remote.agent import processes
from remote.agent.layout import Attempt, Run, State
from remote.agent.reading import Reading, World, read_attempt
from remote.agent.runs import Runs
from remote.agent.view import RunReader
from remote.views import RunView

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")

PIPELINE = """
import json, os, sys, time
given = json.load(sys.stdin)
settings = given["settings"]
if "refuse" in settings:
    print(json.dumps({"error": settings["refuse"]}))
    sys.exit(2)
if "crash" in settings:
    raise RuntimeError(settings["crash"])
while "wait" in settings and not os.path.exists(settings["wait"]):
    time.sleep(0.05)
if sys.argv[1] in ("patches", "drift"):
    row = {"id": "one", "title": "One", "state": "needed", "reason": "", "given": given}
    print(json.dumps({sys.argv[1]: [row]}))
elif sys.argv[1] == "show":
    print(json.dumps({"sample": given}))
else:
    stages = [{"title": s["name"].title(), "env": {"PYTHONPATH": given["bundle"]}, "grace_s": 30, **s}
              for s in settings["stages"]]
    print(json.dumps({"pair": "fake", "versions": {"vllm": "0"}, "stages": stages}))
"""


def sh(name: str, script: str, **more: Any) -> dict[str, Any]:
    """A stage that is a shell script."""
    return {"name": name, "argv": ["/bin/sh", "-c", script], **more}


def py(name: str, script: str, **more: Any) -> dict[str, Any]:
    """A stage that is a Python program."""
    return {"name": name, "argv": [sys.executable, "-c", script], **more}


def until(look: Callable[[], T], what: str = "", patience: float = 60.0) -> T:
    """The first true value of `look`; the test fails when none comes."""
    end = time.monotonic() + patience
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience:.0f} s in vain: {what or look}; last: {value!r}")
        time.sleep(0.02)


def kill(identity: Any) -> None:
    """kill -9 of a process known from status.json."""
    found = processes.Identity.from_json(identity)
    assert found is not None and processes.send(found, signal.SIGKILL), f"{identity} was gone already"
    until(lambda: not processes.alive(found))


class FakeHost:
    """A state folder, a bundle with a fake pipeline, and the agent's own way to run it."""

    def __init__(self, folder: Path) -> None:
        self.bundle = folder / "bundle"
        (self.bundle / "pipeline").mkdir(parents=True)
        (self.bundle / "pipeline" / "__init__.py").write_text("")
        (self.bundle / "pipeline" / "__main__.py").write_text(PIPELINE)
        (self.bundle / "remote").symlink_to(ROOT / "remote")
        self.folder = folder / "host"
        self.folder.mkdir(mode=0o700)
        self.state = State(str(self.folder))
        self.runs = Runs(self.state, str(self.bundle))

    def start(self, *stages: dict[str, Any], request: str = "", **more: Any) -> str:
        given = {"project": "demo", "switches": {}, "secrets": {}, **more}
        return self.runs.start({"stages": list(stages)}, request_id=request or os.urandom(4).hex(), **given)

    def relaunch(self, run: str, stage: str, request: str = "", **more: Any) -> dict[str, Any]:
        given = {"switches": {}, "secrets": {}, **more}
        return self.runs.relaunch(run, stage, request_id=request or os.urandom(4).hex(), **given)

    def attempt(self, run: str, stage: str, number: int = 1) -> Attempt:
        return Attempt(str(self.folder / "runs" / run / stage / str(number)))

    def status(self, attempt: Attempt) -> dict[str, Any]:
        return json.loads(Path(attempt.status).read_text())

    def reading(self, attempt: Attempt) -> Reading:
        return read_attempt(attempt, World())

    def over(self, attempt: Attempt) -> Reading:
        """Wait until nothing of the attempt will change any more."""
        until(lambda: Path(attempt.spec).exists(), f"{attempt.key} begins")
        return until(lambda: (r := self.reading(attempt)).over and r, f"{attempt.key} is over")

    def log(self, attempt: Attempt) -> str:
        path = Path(attempt.log)
        return path.read_text() if path.exists() else ""

    def logged(self, attempt: Attempt, word: str) -> None:
        until(lambda: word in self.log(attempt), f"{word!r} in the log of {attempt.key}")

    def view(self, run: str) -> RunView:
        return RunReader(self.state.run(run)).look_at_all()

    def every_attempt(self) -> list[Attempt]:
        runs = [Run(str(self.folder / "runs" / run)) for run in self.state.run_ids()]
        return [a for run in runs for stage in run.stage_folders() for a in run.attempts(stage)]

    def clear(self) -> None:
        """End what the test left running, by identity."""
        for attempt in self.every_attempt():
            try:
                status = self.status(attempt)
            except (OSError, ValueError):
                status = {}
            for key in ("supervisor", "shim", "main"):
                identity = processes.Identity.from_json(status.get(key))
                if identity is not None:
                    processes.send(identity, signal.SIGKILL)
            main = processes.Identity.from_json(status.get("main"))
            for pid in processes.belonging(main, attempt.log, processes.snapshot()):
                found = processes.identify(pid)
                if found is not None:
                    processes.send(found, signal.SIGKILL)
